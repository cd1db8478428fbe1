"""One moment, written in every form that a reader may want."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Literal

from .zone import offset_text, zone_name

Format = Literal["iso", "rfc2822", "epoch_s", "epoch_ms", "date", "clock", "english", "chinese"]
FORMATS: tuple[Format, ...] = ("iso", "rfc2822", "epoch_s", "epoch_ms", "date", "clock", "english", "chinese")

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July",
    "August", "September", "October", "November", "December",
)  # fmt: skip
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Instant:
    """A moment seen from a zone. `epoch_ms` counts from 1970-01-01T00:00:00Z, without leap seconds."""

    iso: str
    utc: str
    zone: str
    offset: str
    abbreviation: str
    dst: bool
    weekday: str
    iso_week: str
    day_of_year: int
    epoch_s: int
    epoch_ms: int


def describe(moment: datetime) -> Instant:
    """The aware `moment` as an Instant of its own zone."""
    zone = moment.tzinfo
    if zone is None:
        raise ValueError("an Instant needs a moment with a zone")
    year, week, day = moment.isocalendar()
    return Instant(
        iso=moment.isoformat(),
        utc=moment.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        zone=zone_name(zone),
        offset=offset_text(moment.utcoffset() or timedelta()),
        abbreviation=moment.tzname() or "",
        dst=bool(moment.dst()),
        weekday=_DAYS[day - 1],
        iso_week=f"{year:04}-W{week:02}-{day}",
        day_of_year=moment.timetuple().tm_yday,
        epoch_s=_epoch(moment, timedelta(seconds=1)),
        epoch_ms=_epoch(moment, timedelta(milliseconds=1)),
    )


def write(moment: datetime, form: Format) -> str:
    """The aware `moment` in one written form; no locale of the machine takes part."""
    if form in ("epoch_s", "epoch_ms"):
        return str(_epoch(moment, timedelta(seconds=1) if form == "epoch_s" else timedelta(milliseconds=1)))
    if form == "rfc2822":
        return format_datetime(moment)
    if form == "iso":
        return moment.isoformat()
    clock = moment.strftime("%H:%M:%S")
    if form in ("date", "clock"):
        return moment.date().isoformat() if form == "date" else clock
    day = moment.weekday()
    if form == "english":
        return f"{_DAYS[day]}, {moment.day} {_MONTHS[moment.month - 1]} {moment.year}, {clock}"
    return f"{moment.year}年{moment.month}月{moment.day}日 星期{'一二三四五六日'[day]} {clock}"


def _epoch(moment: datetime, unit: timedelta) -> int:
    return (moment - _EPOCH) // unit
