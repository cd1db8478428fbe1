"""Values that every call makes anew: frozen to the type checker, plain when they run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(kind: type[T]) -> type[T]:
    """A dataclass whose fields are never assigned to, which the type checker enforces.

    A `frozen` one says so when it runs too, and pays for it: making one of fifteen fields was measured to
    take 2.1 µs, and 0.76 µs without. A call makes four such values.
    """
    return dataclass(slots=True, unsafe_hash=True)(kind)
