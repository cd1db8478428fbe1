"""Zones by name, and local times that exist twice or not at all."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

Pick = Literal["earlier", "later"]

_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?\Z", re.IGNORECASE)
_IANA = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}\Z")


#: Places that people name although the zone is called after another city.
_CALLED_OTHERWISE = {
    "beijing": "Asia/Shanghai", "peking": "Asia/Shanghai", "china": "Asia/Shanghai", "北京": "Asia/Shanghai",
    "上海": "Asia/Shanghai", "中国": "Asia/Shanghai", "香港": "Asia/Hong_Kong", "台北": "Asia/Taipei",
    "东京": "Asia/Tokyo", "伦敦": "Europe/London", "纽约": "America/New_York", "新加坡": "Asia/Singapore",
    "san_francisco": "America/Los_Angeles",
    "seattle": "America/Los_Angeles", "washington": "America/New_York",
    "boston": "America/New_York", "mumbai": "Asia/Kolkata", "delhi": "Asia/Kolkata",
    "munich": "Europe/Berlin",
    "geneva": "Europe/Zurich", "est": "America/New_York", "pst": "America/Los_Angeles",
    "cst": "America/Chicago",
}  # fmt: skip


class TimeFault(ValueError):  # noqa: N818 - the fault of a text, told to its author
    """The text or zone cannot be understood; the message says which part and what would be."""


@dataclass(frozen=True)
class Ambiguity:
    """A local time that a clock change makes doubtful.

    kind "fold": the clock showed it twice; kind "gap": the clock never showed it. `earlier` and `later`
    are the two readings in ISO 8601, `used` the one that was taken.
    """

    kind: Literal["fold", "gap"]
    used: Pick
    earlier: str
    later: str
    explanation: str


def find_zone(name: str) -> tzinfo:
    """The zone called `name`: an IANA name in any letter case, Z, UTC, or an offset such as +08:00.

    Raises TimeFault naming the nearest known zones.
    """
    name = name.strip()
    if name.upper() in ("Z", "UTC", "GMT"):
        return UTC
    if (offset := _OFFSET.match(name)) is not None:
        return _fixed(*offset.groups())
    known = zone_names().get(name.casefold().replace(" ", "_"))
    if known is None or _IANA.match(known) is None:
        raise TimeFault(_unknown(name))
    try:
        return ZoneInfo(known)
    except (ZoneInfoNotFoundError, OSError, ValueError) as error:
        raise TimeFault(f"the zone {known!r} cannot be read on this machine: {error}") from None


@lru_cache(maxsize=1)
def zone_names() -> dict[str, str]:
    """Every IANA name of this machine, by its folded form."""
    return {name.casefold(): name for name in sorted(available_timezones())}


def nearest_zones(name: str, limit: int = 4) -> list[str]:
    """The names that look most like `name`: by spelling, else by the city it contains."""
    folded = name.casefold().replace(" ", "_")[:64]
    known = zone_names()
    if (other := _CALLED_OTHERWISE.get(folded.rpartition("/")[2])) is not None:
        return [other]
    cities = {key.rpartition("/")[2]: key for key in known}
    close = [
        cities[city] for city in difflib.get_close_matches(folded.rpartition("/")[2], cities, limit, 0.7)
    ]
    close += difflib.get_close_matches(folded, known, limit, 0.6)
    return [known[key] for key in dict.fromkeys(close)][:limit]


def resolve(local: datetime, zone: tzinfo, pick: Pick = "earlier") -> tuple[datetime, Ambiguity | None]:
    """The instant that a clock on the wall in `zone` meant by the naive `local`.

    In a fold `pick` decides. In a gap the offset before the change counts (as RFC 5545 has it), so that
    02:30 in a skipped hour becomes 03:30. Either way the Ambiguity says so.
    """
    first = _in_utc(local.replace(fold=0, tzinfo=zone))
    second = _in_utc(local.replace(fold=1, tzinfo=zone))
    if first == second:
        return first.astimezone(zone), None
    exists = first.astimezone(zone).replace(tzinfo=None) == local.replace(fold=0)
    kind: Literal["fold", "gap"] = "fold" if exists else "gap"
    earlier, later = sorted((first, second))
    chosen = first if kind == "gap" else (earlier if pick == "earlier" else later)
    used: Pick = "earlier" if chosen == earlier else "later"
    shown = local.isoformat(sep=" ")
    explanation = (
        f"{shown} happened twice in {zone_name(zone)}, because the clock was set back; used the {used} one"
        if kind == "fold"
        else f"{shown} never happened in {zone_name(zone)}, because the clock was set forward; "
        f"used the offset before the change, {chosen.astimezone(zone).isoformat()}"
    )
    return chosen.astimezone(zone), Ambiguity(
        kind, used, earlier.astimezone(zone).isoformat(), later.astimezone(zone).isoformat(), explanation
    )


def zone_name(zone: tzinfo) -> str:
    """`Asia/Shanghai`, `UTC` or an offset such as `+08:00`."""
    if isinstance(zone, ZoneInfo):
        return zone.key
    return "UTC" if zone is UTC else offset_text(zone.utcoffset(None) or timedelta())


def offset_text(offset: timedelta) -> str:
    """`+08:00`; with seconds where history had them."""
    sign = "-" if offset < timedelta() else "+"
    minutes, seconds = divmod(int(abs(offset).total_seconds()), 60)
    text = f"{sign}{minutes // 60:02}:{minutes % 60:02}"
    return f"{text}:{seconds:02}" if seconds else text


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise TimeFault("the time lies outside the years 1 to 9999") from None


def _fixed(sign: str, hours: str, minutes: str | None) -> tzinfo:
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
    if offset >= timedelta(hours=24) or int(minutes or 0) > 59:
        raise TimeFault(f"{sign}{hours}:{minutes or '00'} is no offset: it must be less than 24 hours")
    if not offset:
        return UTC
    return timezone(-offset if sign == "-" else offset)


def _unknown(name: str) -> str:
    near = nearest_zones(name)
    hint = f"; nearest: {', '.join(near)}" if near else "; use a name such as Asia/Shanghai, UTC or +08:00"
    return f"unknown zone {name[:64]!r}{hint}"
