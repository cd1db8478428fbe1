"""Fixtures that several unit tests share."""

from __future__ import annotations

from tests.inprocess_bench import gates

__all__ = ["gates"]
