"""The time tools: what time it is, what time that is elsewhere, and which time a text means."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated

from hermesd.plugin import ToolContext, ToolError, tool

from .instant import FORMATS, Format, Instant, describe, write
from .reading import Order, Reading, read_time
from .zone import Ambiguity, Pick, TimeFault, find_zone

ZoneName = Annotated[
    str | None,
    "IANA zone such as Asia/Shanghai, UTC, or an offset such as +08:00; from the user or their profile. "
    "When it is not known leave it out: the operator's zone, else UTC, is used and the answer says so",
]
TimeText = Annotated[
    str,
    "the time as the user or a document wrote it: ISO 8601, RFC 2822, Unix seconds or milliseconds, "
    "English or Chinese, at most 200 characters; ask the user when no time was given",
]
Now = Annotated[
    str | None,
    "ISO 8601 time from which 'tomorrow' and '3 days ago' count, for example when a message was written; "
    "leave it out for the present",
]
OrderOfDate = Annotated[
    Order | None,
    "how to read 03/04/2026: day_first or month_first, from the user's country; leave it out when the "
    "text is not of that form: the tool refuses rather than guesses",
]
PickOfFold = Annotated[
    Pick,
    "which of the two readings is meant when the clock was set back and the hour happened twice; earlier "
    "unless the user says otherwise",
]


@dataclass(frozen=True)
class Present:
    """The present, and the written forms that were asked for."""

    instant: Instant
    formats: dict[str, str]


@dataclass(frozen=True)
class Conversion:
    """The same instant in two zones. `day_change` is -1, 0 or 1: the target's date against the source's."""

    source: Instant
    target: Instant
    difference_minutes: int
    day_change: int
    assumed: list[str]
    ambiguity: Ambiguity | None


@dataclass(frozen=True)
class ParsedTime:
    """What a text means. `precision`: the smallest unit that it gave; `assumed`: what was filled in."""

    instant: Instant
    form: str
    precision: str
    assumed: list[str]
    ambiguity: Ambiguity | None


def now_in(now: datetime, zone: tzinfo, formats: list[Format]) -> Present:
    """The aware `now` seen from `zone`."""
    moment = now.astimezone(zone)
    return Present(describe(moment), {form: write(moment, form) for form in formats})


def converted(reading: Reading, target: tzinfo) -> Conversion:
    """The reading's instant seen from `target`."""
    there = reading.moment.astimezone(target)
    change = (there.utcoffset() or timedelta()) - (reading.moment.utcoffset() or timedelta())
    return Conversion(
        source=describe(reading.moment),
        target=describe(there),
        difference_minutes=round(change.total_seconds() / 60),
        day_change=(there.date() - reading.moment.date()).days,
        assumed=reading.assumed,
        ambiguity=reading.ambiguity,
    )


@tool(
    name="time.get_now",
    side_effects="none",
    title="Current time",
    description="Tells the present date and time in a zone, with weekday, ISO week, offset and Unix time.",
    when_to_use="The answer depends on today's date or the present time.",
    when_not_to_use="The time is already written somewhere: use time.parse_text or time.convert_zone.",
    examples=[
        {"user_says": "What time is it in Shanghai?", "arguments": {"zone": "Asia/Shanghai"}},
        {"user_says": "今天星期几?", "arguments": {"zone": "Asia/Shanghai", "formats": ["chinese"]}},
    ],
)
def get_now(
    ctx: ToolContext,
    *,
    zone: ZoneName = None,
    formats: Annotated[
        list[Format] | None,
        "written forms to add to the answer, for quoting to the user; leave it out for all of them",
    ] = None,
) -> Present:
    wanted = list(FORMATS) if formats is None else list(dict.fromkeys(formats))
    return now_in(datetime.now(UTC), _zone(ctx, zone), wanted)


@tool(
    name="time.convert_zone",
    side_effects="none",
    title="Convert between zones",
    description=(
        "Converts a time from one zone to another. Says explicitly when the local time happened twice or "
        "never happened because clocks were changed."
    ),
    when_to_use="A time given in one place is needed in another: meetings, logs, deadlines.",
    when_not_to_use="Only the present time of a zone is asked: use time.get_now.",
    examples=[
        {
            "user_says": "3 pm on 30 November in Berlin, what is that in Shanghai?",
            "arguments": {
                "text": "2026-11-30 15:00",
                "to_zone": "Asia/Shanghai",
                "from_zone": "Europe/Berlin",
            },
        },
        {
            "user_says": "北京时间明天上午9点是纽约几点?",
            "arguments": {"text": "明天上午9点", "to_zone": "America/New_York", "from_zone": "Asia/Shanghai"},
        },
    ],
)
def convert_zone(
    ctx: ToolContext,
    *,
    text: TimeText,
    to_zone: Annotated[
        str,
        "zone that the time is wanted in: an IANA name such as America/New_York, UTC, or an offset; from the "
        "user, or the place they named; ask when it is not known",
    ],
    from_zone: ZoneName = None,
    pick: PickOfFold = "earlier",
    order: OrderOfDate = None,
    relative_to: Now = None,
) -> Conversion:
    reading = _read(ctx, text, from_zone, order=order, pick=pick, relative_to=relative_to)
    return converted(reading, _zone(ctx, to_zone))


@tool(
    name="time.parse_text",
    side_effects="none",
    title="Understand a time",
    description=(
        "Turns a date or time written by people or programs into an exact instant: ISO 8601, RFC 2822, "
        "Unix time, English ('3 days ago', 'next Friday 5pm') and Chinese (2026年11月30日 下午3点, 三天前). "
        "Lists everything that the text left open and that was assumed."
    ),
    when_to_use="A time in free text must become exact before it is stored, compared or passed on.",
    when_not_to_use="The time is already ISO 8601 with an offset; dates must be found in a long text: use "
    "text.extract_patterns.",
    examples=[
        {
            "user_says": "Remind me next Friday at 5pm",
            "arguments": {"text": "next Friday 5pm", "zone": "Europe/Paris"},
        },
        {"user_says": "三天前的日志", "arguments": {"text": "三天前", "zone": "Asia/Shanghai"}},
        {"user_says": "What date is 1796029445?", "arguments": {"text": "1796029445"}},
    ],
)
def parse_text(
    ctx: ToolContext,
    *,
    text: TimeText,
    zone: ZoneName = None,
    order: OrderOfDate = None,
    pick: PickOfFold = "earlier",
    relative_to: Now = None,
) -> ParsedTime:
    reading = _read(ctx, text, zone, order=order, pick=pick, relative_to=relative_to)
    return ParsedTime(
        describe(reading.moment), reading.form, reading.precision, reading.assumed, reading.ambiguity
    )


def _zone(ctx: ToolContext, name: str | None) -> tzinfo:
    try:
        return find_zone(name if name is not None else str(ctx.settings.get("zone") or "UTC"))
    except TimeFault as fault:
        raise _refusal(fault) from None


def _read(
    ctx: ToolContext,
    text: str,
    zone: str | None,
    *,
    order: Order | None,
    pick: Pick,
    relative_to: str | None,
) -> Reading:
    home = _zone(ctx, zone)
    now = datetime.now(UTC)
    try:
        if relative_to is not None:
            now = read_time(relative_to, now=now, zone=home).moment
        return read_time(text, now=now, zone=home, order=order, pick=pick)
    except TimeFault as fault:
        raise _refusal(fault) from None


def _refusal(fault: TimeFault) -> ToolError:
    return ToolError(str(fault), code="INVALID_ARGUMENT", effect="none")
