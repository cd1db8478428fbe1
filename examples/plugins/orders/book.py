"""Where orders come from: here a file beside the code, in real life a client of your shop's API."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path


class State(Enum):
    """Where an order stands."""

    OPEN = "open"
    SENT = "sent"


@dataclass
class Address:
    """Where an order goes."""

    street: str
    city: str


@dataclass
class Order:
    """One order."""

    number: str
    state: State
    total: Decimal
    lines: int
    note: str
    address: Address


class OrderBook:
    """A connection to the shop. It is opened once, shared by all calls, and closed with the plugin."""

    def __init__(self, token: str) -> None:
        if not token:
            raise ValueError("the shop asks for a token")
        self._lock = threading.Lock()  # plain tools run in several threads at once
        data = json.loads((Path(__file__).parent / "orders.json").read_text(encoding="utf-8"))
        self._orders = {number: _order(number, each) for number, each in data.items()}

    def find(self, number: str) -> Order | None:
        """The order of that number."""
        return self._orders.get(number)

    def all(self) -> list[Order]:
        """Every order, by number."""
        return sorted(self._orders.values(), key=lambda each: each.number)

    def send_to(self, order: Order, address: Address) -> None:
        """Change where an order goes."""
        with self._lock:
            order.address = address

    def close(self) -> None:
        """Let go of the connection."""
        self._orders.clear()


def _order(number: str, data: dict[str, str]) -> Order:
    address = Address(data["street"], data["city"])
    return Order(
        number, State(data["state"]), Decimal(data["total"]), int(data["lines"]), data["note"], address
    )
