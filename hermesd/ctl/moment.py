"""Points in time on the command line: as a clock shows them, or so long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

_AGO = re.compile(r"(\d{1,9})([smhdw])\Z")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class Moment(click.ParamType):  # type: ignore[type-arg] # generic in newer releases of click only
    """`2030-01-31`, `2030-01-31T12:00:00Z` (without a zone: this machine's), or `15m`, `2h`, `7d` ago."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime | None:
        if value is None or isinstance(value, datetime):
            return value
        text = str(value)
        try:
            if (ago := _AGO.match(text)) is not None:
                return datetime.now(UTC) - timedelta(seconds=int(ago[1]) * _SECONDS[ago[2]])
            return datetime.fromisoformat(text).astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail(f"{text!r} is no time: write 2030-01-31T12:00:00Z, or 15m for so long ago", param, ctx)
