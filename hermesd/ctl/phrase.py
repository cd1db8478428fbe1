"""Numbers and moments in words that a person reads at a glance."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hermesd.ctl.message import time_text

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60))


def duration(seconds: float) -> str:
    """`3d 4h`, `5m 12s`, `7s`: the two greatest units."""
    rest = max(0, int(seconds))
    parts = []
    for unit, size in _UNITS:
        if rest >= size:
            parts.append(f"{rest // size}{unit}")
            rest %= size
    if rest or not parts:
        parts.append(f"{rest}s")
    return " ".join(parts[:2])


def since(stamp: Any, now: datetime) -> str:
    """How long ago a Timestamp was: `5m ago`; "" when it is not set."""
    text = time_text(stamp)
    if not text:
        return ""
    return duration((now - datetime.fromisoformat(text)).total_seconds()) + " ago"


def size(count: int) -> str:
    """Bytes as `12.3 MiB`."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def short_digest(digest: str) -> str:
    """The first twelve characters of a digest's hexadecimal form: enough to tell contents apart."""
    return digest.removeprefix("sha256:")[:12]
