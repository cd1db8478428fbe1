"""Tools of a small shop."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Literal, NotRequired, TypedDict

from hermesd.plugin import PluginContext, ToolCallError, ToolContext, ToolError, tool

from .book import Address, Order, OrderBook, State

Number = Annotated[str, "complete order number such as A-1; ask the user when it is missing"]


def hermesd_shared(ctx: PluginContext) -> Iterator[dict[str, object]]:
    """One connection for all calls: made when the plugin starts, closed when it retires."""
    book = OrderBook(ctx.secret("ORDERS_TOKEN"))
    try:
        yield {"book": book}
    finally:
        book.close()


class Status(TypedDict):
    """Where an order is."""

    state: State
    total: Decimal
    currency: str
    city: NotRequired[str]


@tool(
    side_effects="read",
    idempotent=True,
    when_to_use="The user asks where an order is, what it costs, or whether it has left.",
    when_not_to_use="The user wants to change an order: use orders.change_address.",
    examples=[{"user_says": "Where is A-1?", "arguments": {"order_id": "A-1"}}],
)
def query_status(
    ctx: ToolContext,
    order_id: Number,
    detail: Annotated[
        Literal["short", "full"], "full tells the city too; short unless the user asks where it goes"
    ] = "short",
) -> Status:
    """Tell where an order is."""
    order = _order(ctx, order_id)
    ctx.log.info("looked up", order=order_id)
    status: Status = {
        "state": order.state,
        "total": order.total,
        "currency": str(ctx.settings.get("currency", "EUR")),
    }
    if detail == "full":
        status["city"] = order.address.city
    return status


@tool(
    side_effects="write",
    idempotent=True,
    when_to_use="The user wants an order to go somewhere else.",
    when_not_to_use="The order has been sent already: offer a return instead.",
)
def change_address(
    ctx: ToolContext,
    order_id: Number,
    address: Annotated[Address, "the whole new address, as the user said it; ask for what is missing"],
) -> str:
    """Change the address that an open order goes to."""
    order = _order(ctx, order_id)
    if order.state is State.SENT:
        raise ToolError(
            f"order {order_id} has been sent and cannot be changed: offer a return",
            code="ORDER_SENT",
            effect="none",  # a write that fails may have happened; this one certainly has not
        )
    _book(ctx).send_to(order, address)
    return f"{order_id} goes to {address.street}, {address.city}"


@tool(
    side_effects="read",
    idempotent=True,
    when_to_use="The user asks how many orders there are, or what they are worth.",
    when_not_to_use="The user asks about one order: use orders.query_status.",
)
def sum_orders(
    ctx: ToolContext,
    states: Annotated[frozenset[State], "which orders count; leave it out for all of them"] = frozenset(
        State
    ),
) -> dict[str, Decimal]:
    """Add up what the orders are worth, by state."""
    sums = {state.value: Decimal(0) for state in states}
    orders = _book(ctx).all()
    for done, order in enumerate(orders, 1):
        if ctx.cancelled:
            break
        if order.state in states:
            sums[order.state.value] += order.total
        ctx.progress(done, len(orders), order.number)
    return sums


@tool(
    side_effects="read",
    idempotent=True,
    when_to_use="The user asks how long the note on an order is.",
    when_not_to_use="The user asks where an order is: use orders.query_status.",
)
async def measure_note(ctx: ToolContext, order_id: Number) -> int:
    """Count the characters of an order's note, with the tool that counts everybody's texts."""
    order = _order(ctx, order_id)
    try:
        stats = await ctx.call("text.count_stats", text=order.note)
    except ToolCallError as error:
        raise ToolError(f"the note cannot be measured: {error}", code="DEPENDENCY_FAILED") from error
    return int(stats["characters"])


def _order(ctx: ToolContext, number: str) -> Order:
    order = _book(ctx).find(number)
    if order is None:
        raise ToolError(
            f"there is no order {number}: ask the user for the number on the invoice", effect="none"
        )
    return order


def _book(ctx: ToolContext) -> OrderBook:
    book: OrderBook = ctx.shared("book")
    return book
