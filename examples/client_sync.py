"""The blocking client: list, call, handle what goes wrong, stream.

Run it beside a daemon that serves examples/plugins/orders. It finds the daemon by HERMESD_ADDRESS, else in
the usual places.
"""

from __future__ import annotations

import sys

from hermesd.client import Client, ClientError, ToolFailedError, UnreachableError


def main() -> int:
    """Exit status 0 when all went as told."""
    try:
        with Client() as client:
            list_tools(client)
            call(client)
            handle_errors(client)
            stream(client)
    except UnreachableError as error:
        print(f"{error}\n{error.remedy}", file=sys.stderr)
        return 3
    except ClientError as error:  # the call itself was refused or lost; a tool's failure is none of these
        print(error, file=sys.stderr)
        return 1
    return 0


def list_tools(client: Client) -> None:
    names = [tool.name for tool in client.tools() if tool.state == "ready" and tool.plugin == "orders"]
    print("tools:", ", ".join(names))


def call(client: Client) -> None:
    result = client.call_tool("orders.query_status", {"order_id": "A-2", "detail": "full"}, timeout_ms=2000)
    print("A-2:", result.raise_for_error().data)


def handle_errors(client: Client) -> None:
    # A tool's failure is a result: look at `code`, and at `effect` before you try again.
    late = client.call_tool(
        "orders.change_address", {"order_id": "A-1", "address": {"street": "Hauptplatz 1", "city": "Linz"}}
    )
    print(f"A-1: {late.code}, effect {late.effect}: {late.message}")

    wrong = client.call_tool("orders.query_status", {"order_id": 7})
    for fault in wrong.detail["faults"]:
        print(f"wrong: {fault['path']}: {fault['problem']}")

    # Or let it raise.
    try:
        client.call_tool("orders.query_state").raise_for_error()
    except ToolFailedError as error:
        print(f"raised: {error.result.code}, did you mean {error.result.detail['nearest'][0]}?")


def stream(client: Client) -> None:
    for event in client.stream_call_tool("orders.sum_orders", {"states": ["open"]}):
        kind = event.WhichOneof("event")
        if kind == "progress":
            print(f"progress: {event.progress.done:g} of {event.progress.total:g}")
        elif kind == "result":
            print("sum:", event.result.data_json)


if __name__ == "__main__":
    sys.exit(main())
