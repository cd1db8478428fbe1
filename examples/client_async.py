"""The async client: many calls at once, streaming, giving up.

Run it beside a daemon that serves examples/plugins/orders. It finds the daemon by HERMESD_ADDRESS, else in
the usual places.
"""

from __future__ import annotations

import asyncio
import sys

from hermesd.client import AsyncClient, UnreachableError


async def main() -> int:
    """Exit status 0 when all went as told."""
    try:
        async with AsyncClient() as client:
            await call_at_once(client)
            await stream(client)
            await give_up(client)
    except UnreachableError as error:
        print(f"{error}\n{error.remedy}", file=sys.stderr)
        return 3
    return 0


async def call_at_once(client: AsyncClient) -> None:
    numbers = ["A-1", "A-2", "A-3"]
    results = await asyncio.gather(
        *(client.call_tool("orders.query_status", {"order_id": number}) for number in numbers)
    )
    for number, result in zip(numbers, results, strict=True):
        print(f"{number}: {result.raise_for_error().data['state']}")


async def stream(client: AsyncClient) -> None:
    async for event in client.stream_call_tool("orders.query_status", {"order_id": "A-1"}):
        if event.WhichOneof("event") == "log":
            print(f"log: {event.log.message}")
        elif event.WhichOneof("event") == "result":
            print(f"result: {event.result.data_json}")


async def give_up(client: AsyncClient) -> None:
    # Leaving a call cancels the tool; so does `cancel_call` with its request id, from anywhere.
    task = asyncio.create_task(client.call_tool("orders.measure_note", {"order_id": "A-2"}))
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        print("gave up")


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
