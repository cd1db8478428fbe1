"""What a text means as a time: ISO 8601, RFC 2822, Unix time, and what people write."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import Literal

from . import phrase
from .zone import Ambiguity, Pick, TimeFault, find_zone, resolve, zone_name

Order = Literal["day_first", "month_first"]
MAX_TEXT = 200

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"(@)?([+-]?)(\d{1,19})(?:\.(\d{1,9}))?\Z", re.ASCII)
_RFC2822 = re.compile(
    r"(?:[a-z]{3},\s?)?\d{1,2}\s[a-z]{3}\s\d{4}\s\d{2}:\d{2}(?::\d{2})?\s(?:[+-]\d{4}|[a-z]{1,4})(?:\s?\(.*\))?\Z"
)
_HAS_CJK = re.compile(r"[一-鿿]")
#: Digits of Unix time in seconds, milli-, micro- and nanoseconds, for the years 1973 to 5138.
_EPOCH_UNITS = (
    (range(9, 12), 0, "epoch_s"),
    (range(12, 15), 3, "epoch_ms"),
    (range(15, 18), 6, "epoch_us"),
    (range(18, 20), 9, "epoch_ns"),
)


@dataclass(frozen=True)
class Reading:
    """An instant in the zone that the text named, else the one it was given.

    `assumed` lists everything that the text did not say and that was filled in.
    """

    moment: datetime
    form: str
    precision: str
    assumed: list[str]
    ambiguity: Ambiguity | None = None


def read_time(
    text: str, *, now: datetime, zone: tzinfo, order: Order | None = None, pick: Pick = "earlier"
) -> Reading:
    """The meaning of `text`, with `now` (aware) for what is relative and `zone` for what names none.

    Raises TimeFault, naming the part that was not understood.
    """
    if not text.strip():
        raise TimeFault("the text is empty")
    if len(text) > MAX_TEXT:
        raise TimeFault(f"the text has {len(text)} characters; a time has at most {MAX_TEXT}")
    try:
        return (
            _read_number(text.strip(), zone, pick)
            or _read_iso(text.strip(), zone, pick)
            or _Words(text, now.astimezone(zone), zone, order, pick).read()
        )
    except OverflowError:
        raise TimeFault("the time lies outside the years 1 to 9999") from None


def _read_number(text: str, zone: tzinfo, pick: Pick) -> Reading | None:
    match = _NUMBER.match(text)
    if match is None:
        return None
    at, sign, digits, fraction = match.groups()
    if not (at or sign or fraction):
        if len(digits) == 4:
            return _in_zone(
                _civil(int(digits), 1, 1),
                zone,
                pick,
                form="numeric",
                precision="year",
                assumed=["no day in the text: used the start of the year"],
            )
        if len(digits) in (8, 14) and (compact := _compact(digits)) is not None:
            assumed = [] if len(digits) == 14 else ["no time of day in the text: used the start of the day"]
            return _in_zone(
                compact,
                zone,
                pick,
                form="iso8601",
                precision="second" if len(digits) == 14 else "day",
                assumed=assumed,
            )
    for lengths, shift, form in _EPOCH_UNITS:
        if len(digits) in lengths or (at and not shift):
            scaled = int(digits + (fraction or "").ljust(9, "0")[:9])
            micros = scaled * 10**6 // 10 ** (9 + shift)
            moment = _EPOCH + timedelta(microseconds=-micros if sign == "-" else micros)
            return Reading(
                moment.astimezone(zone), form, "second" if not (shift or fraction) else "subsecond", []
            )
    raise TimeFault(
        f"{text!r} is only a number: Unix time has 9 to 11 digits in seconds, 12 to 14 in milliseconds; "
        "write @NUMBER for seconds of any length, or a date such as 2026-11-30"
    )


def _compact(digits: str) -> datetime | None:
    try:
        return datetime.strptime(digits, "%Y%m%d" if len(digits) == 8 else "%Y%m%d%H%M%S")  # noqa: DTZ007 - local on purpose
    except ValueError:
        return None


def _read_iso(text: str, zone: tzinfo, pick: Pick) -> Reading | None:
    if not re.match(r"\d{4}-?(?:\d\d|W)", text, re.ASCII):
        return None
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    day_only = len(text) <= 10 and ":" not in text
    assumed = ["no time of day in the text: used the start of the day"] if day_only else []
    precision = "day" if day_only else ("subsecond" if moment.microsecond else "second")
    if moment.tzinfo is not None:
        offset = moment.utcoffset() or timedelta()
        return Reading(moment.astimezone(timezone(offset) if offset else UTC), "iso8601", precision, assumed)
    return _in_zone(moment, zone, pick, form="iso8601", precision=precision, assumed=assumed)


def _in_zone(
    local: datetime,
    zone: tzinfo,
    pick: Pick,
    *,
    form: str,
    precision: str,
    assumed: list[str],
    named: bool = False,
) -> Reading:
    moment, ambiguity = resolve(local, zone, pick)
    notes = assumed if named else [*assumed, f"no zone in the text: used {zone_name(zone)}"]
    if ambiguity is not None:
        notes = [*notes, ambiguity.explanation]
    return Reading(moment, form, precision, notes, ambiguity)


def _civil(year: int, month: int, day: int) -> datetime:
    try:
        return datetime(year, month, day)  # noqa: DTZ001 - local on purpose, resolved in a zone later
    except ValueError as error:
        raise TimeFault(f"{year:04}-{month:02}-{day:02} is no date: {error}") from None


@dataclass
class _Words:
    """One reading of a text made of words: each step takes what it knows out of `rest`."""

    text: str
    now: datetime
    zone: tzinfo
    order: Order | None
    pick: Pick
    rest: str = ""
    named_zone: bool = False
    half: str = ""
    precision: str = ""
    assumed: list[str] = field(default_factory=list)

    def read(self) -> Reading:
        self.rest = phrase.CTIME.sub(r"\1 \3 \2", phrase.normalise(self.text))
        rfc = _RFC2822.match(self.rest) is not None
        self._take_zone(rfc)
        if self.rest.strip() in ("now", "right now", "现在", "此刻"):
            return Reading(self.now.astimezone(self.zone), "relative", "subsecond", [])
        shift = self._take_shift()
        day, form = self._take_day(shift is not None)
        clock = self._take_clock()
        left = phrase.FILLER.sub("", self.rest)
        if left or (shift is None and day is None and clock is None):
            raise TimeFault(
                f"{(left or self.text)[:60]!r} was not understood in {self.text[:80]!r}; use a form such as "
                "2026-11-30T15:00:00+08:00, '3 days ago', 'tomorrow 3pm' or 2026年11月30日 下午3点"
            )
        if rfc:
            form = "rfc2822"
        elif form == "date":
            form = _language(self.text)
        return self._shifted(shift, clock) if shift is not None else self._local(day, clock, form)

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.search(self.rest)
        if match is not None:
            self.rest = f"{self.rest[: match.start()]} {self.rest[match.end() :]}"
        return match

    # zones

    def _take_zone(self, rfc: bool) -> None:
        match = phrase.OFFSET.search(self.rest)
        if match is not None:
            lead = "" if match["lead"] in ("utc", "gmt") else match["lead"]
            self.rest = self.rest[: match.start()] + lead
            self._use_zone(find_zone(match["offset"]))
            return
        match = phrase.ZONE_WORD.search(self.rest)
        if match is None:
            return
        if match["abbr"] is None:
            self._use_zone(find_zone(match["iana"] or "Asia/Shanghai"))
        elif match["abbr"] in phrase.RFC_ZONES or (rfc and match["abbr"] in ("cst", "cdt")):
            hours = {"cst": -6, "cdt": -5}.get(match["abbr"]) if rfc else None
            hours = phrase.RFC_ZONES[match["abbr"]] if hours is None else hours
            self._use_zone(timezone(timedelta(hours=hours)) if hours else UTC)
        elif match["abbr"] in phrase.DOUBTFUL_ZONES:
            raise TimeFault(
                f"{match['abbr'].upper()} means several zones: {phrase.DOUBTFUL_ZONES[match['abbr']]}; "
                "name one of them"
            )
        else:
            return
        self._take(phrase.ZONE_WORD)

    def _use_zone(self, zone: tzinfo) -> None:
        self.zone, self.named_zone = zone, True
        self.now = self.now.astimezone(zone)

    # relative amounts

    def _take_shift(self) -> dict[str, float] | None:
        for match in phrase.RELATIVE.finditer(self.rest):
            if match["way"] is None and match["future"] is None:
                continue
            self.rest = f"{self.rest[: match.start()]} {self.rest[match.end() :]}"
            past = match["way"] in ("ago", "earlier", "以前", "之前", "前")
            if past and match["future"]:
                raise TimeFault(f"{match.group().strip()!r} says both past and future")
            return {unit: -n if past else n for unit, n in _amounts(match["spans"]).items()}
        return None

    def _shifted(self, shift: dict[str, float], clock: tuple[time, int] | None) -> Reading:
        exact = timedelta(**{unit: shift.get(unit, 0) for unit in ("seconds", "minutes", "hours")})
        calendar = shift.keys() - {"seconds", "minutes", "hours"}
        if clock is not None and exact:
            raise TimeFault("a time of day and an amount of hours, minutes or seconds do not go together")
        local = self.now.replace(tzinfo=None, fold=0)
        if not calendar:
            return Reading(
                (self.now.astimezone(UTC) + exact).astimezone(self.zone),
                "relative",
                "subsecond",
                self.assumed,
            )
        moved = _add_months(local, shift.get("months", 0) + 12 * shift.get("years", 0), self.assumed)
        moved += timedelta(days=shift.get("days", 0) + 7 * shift.get("weeks", 0))
        if clock is not None:
            moved = datetime.combine(moved.date() + timedelta(days=clock[1]), clock[0])
        precision = self.precision or "subsecond"
        reading = _in_zone(
            moved,
            self.zone,
            self.pick,
            form="relative",
            precision=precision,
            assumed=self.assumed,
            named=self.named_zone,
        )
        if not exact:
            return reading
        moment = (reading.moment.astimezone(UTC) + exact).astimezone(self.zone)
        return Reading(moment, "relative", "subsecond", reading.assumed, reading.ambiguity)

    # days

    def _take_day(self, shifted: bool) -> tuple[date | None, str]:
        day, form = self._take_named_day(), "relative"
        if day is None:
            day, form = self._take_date(), "date"
        weekday = None if shifted else self._take(phrase.WEEKDAY)
        if weekday is not None:
            index = phrase.WEEKDAYS[weekday["day"] or weekday["zhday"]]
            if day is None:
                return self._weekday(index, weekday["which"] or "", weekday["zh"]), "relative"
            if day.weekday() != index:
                self.assumed.append(
                    f"the weekday in the text does not belong to {day.isoformat()}: used the date"
                )
        if day is not None and shifted:
            raise TimeFault("a date and an amount such as '3 days ago' do not go together")
        return day, form if day is not None else "relative"

    def _take_named_day(self) -> date | None:
        match = self._take(phrase.NAMED_DAY)
        if match is None:
            return None
        self.half = phrase.DAY_HALVES.get(match.group(), "")
        self.precision = "day"
        return self.now.date() + timedelta(days=phrase.NAMED_DAYS[match.group()])

    def _take_date(self) -> date | None:
        for pattern, build in (
            (phrase.CHINESE_DATE, self._from_chinese),
            (phrase.ISO_DATE, lambda m: self._date(m[1], m[3], m[4])),
            (phrase.SLASH_DATE, self._from_slashes),
            (phrase.DAY_MONTH, lambda m: self._date(m[3], phrase.MONTHS[m[2]], m[1])),
            (phrase.MONTH_DAY, lambda m: self._date(m[3], phrase.MONTHS[m[1]], m[2])),
            (phrase.MONTH_YEAR, lambda m: self._date(m[2], phrase.MONTHS[m[1]], None)),
        ):
            if (match := self._take(pattern)) is not None:
                return build(match)
        return None

    def _from_chinese(self, match: re.Match[str]) -> date:
        year, month, day, only_year, only_day = match.groups()
        if only_day is not None:
            self.assumed.append(f"no month in the text: used {self.now:%Y-%m}")
            return self._date(str(self.now.year), self.now.month, only_day)
        return self._date(only_year or year, month, day)

    def _from_slashes(self, match: re.Match[str]) -> date:
        first, second = int(match[1]), int(match[3])
        order = self.order
        if first > 12 or second > 12 or first == second:
            order = "day_first" if first > 12 else "month_first"
        if order is None:
            raise TimeFault(
                f"{match.group()!r} may be day/month or month/day; say which with order, or write YYYY-MM-DD"
            )
        day, month = (first, second) if order == "day_first" else (second, first)
        return self._date(match[4], month, day)

    def _date(self, year: str | None, month: str | int | None, day: str | int | None) -> date:
        self.precision = "day" if day is not None else ("month" if month is not None else "year")
        if year is None:
            self.assumed.append(f"no year in the text: used {self.now.year}")
        if day is None:
            self.assumed.append(f"no day in the text: used the start of the {self.precision}")
        return _civil(int(year or self.now.year), int(month or 1), int(day or 1)).date()

    def _weekday(self, index: int, which: str, chinese: str | None) -> date:
        """`next X` is the first X after today, as `date -d` has it; 下周X lies in the week after this one."""
        today = self.now.date()
        self.precision = "day"
        if chinese:
            weeks = {"上": -1, "下": 1}.get(chinese[0], 0) * (2 if chinese[:2] in ("上上", "下下") else 1)
            return today + timedelta(days=index - today.weekday() + 7 * weeks)
        ahead = (index - today.weekday()) % 7
        if which in ("last", "past"):
            ahead = ahead - 7
        elif which == "next" and ahead == 0:
            ahead = 7
        day = today + timedelta(days=ahead)
        self.assumed.append(f"the weekday was taken as {day.isoformat()}")
        return day

    # times of day

    def _take_clock(self) -> tuple[time, int] | None:
        """The time of day and how many days later it falls (晚上12点 is the next day's midnight)."""
        for pattern in (phrase.CLOCK, phrase.CHINESE_CLOCK, phrase.AMPM):
            match = self._take(pattern)
            if match is not None:
                return self._clock(match.groupdict())
        match = self._take(phrase.NAMED_CLOCK)
        if match is None:
            return None
        self.precision = "hour"
        if match["half"]:
            raise TimeFault(f"{match['half']!r} is a part of the day, not a time: add the hour")
        return time(12 if match["word"] in ("noon", "midday", "正午") else 0), 0

    def _clock(self, parts: dict[str, str | None]) -> tuple[time, int]:
        hour, minute, second = int(parts["h"] or 0), int(parts.get("m") or 0), int(parts.get("s") or 0)
        part = parts.get("part")
        if part is not None:
            minute = 30 if part == "半" else 15 * int(part[0])
        self.precision = "second" if parts.get("s") else ("minute" if parts.get("m") or part else "hour")
        if parts.get("f"):
            self.precision = "subsecond"
        hour, days = _on_the_24_hour_clock(hour, parts.get("ap"), parts.get("half") or self.half)
        try:
            micros = int((parts.get("f") or "").ljust(6, "0")[:6])
            return time(hour, minute, second, micros), days
        except ValueError:
            raise TimeFault(f"{hour}:{minute:02}:{second:02} is no time of day") from None

    def _local(self, day: date | None, clock: tuple[time, int] | None, form: str) -> Reading:
        assumed = self.assumed
        if day is None:
            day = self.now.date()
            assumed = [*assumed, f"no date in the text: used {day.isoformat()}"]
        if clock is None:
            assumed = [*assumed, "no time of day in the text: used the start of the day"]
        at, days = clock or (time(), 0)
        local = datetime.combine(day + timedelta(days=days), at)
        return _in_zone(
            local,
            self.zone,
            self.pick,
            form=form,
            precision=self.precision,
            assumed=assumed,
            named=self.named_zone,
        )


def _on_the_24_hour_clock(hour: int, suffix: str | None, half: str) -> tuple[int, int]:
    if suffix:
        if not 1 <= hour <= 12:
            raise TimeFault(f"{hour} {suffix} is no hour: with am or pm it goes from 1 to 12")
        return hour % 12 + (12 if suffix[0] == "p" else 0), 0
    if hour == 24:
        return 0, 1
    if half in ("凌晨", "清晨", "早上", "早晨", "上午", "半夜") and hour == 12:
        return (12 if half == "上午" else 0), 0
    if half in ("下午", "傍晚", "中午") and 1 <= hour < (12 if half != "中午" else 4):
        return hour + 12, 0
    if half in ("晚上", "夜里"):
        if hour == 12:
            return 0, 1
        if hour < 5:
            raise TimeFault(
                f"{half}{hour}点 may belong to either day: write 凌晨{hour}点 with the date that is meant"
            )
        return (hour + 12 if hour < 12 else hour), 0
    return hour, 0


def _language(text: str) -> str:
    if _HAS_CJK.search(text):
        return "chinese"
    return "english" if re.search(r"[A-Za-z]{3}", text) else "numeric"


def _amounts(spans: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for amount, unit, half in phrase.ONE_AMOUNT.findall(spans):
        name = phrase.UNITS.get(unit) or phrase.UNITS[unit.removesuffix("s")]
        number = 0.5 if amount == "半" else float(phrase.ENGLISH_NUMBERS.get(amount) or amount)
        found[name] = found.get(name, 0) + number + (0.5 if half else 0)
    return found


def _add_months(local: datetime, months: float, assumed: list[str]) -> datetime:
    if months != int(months):
        raise TimeFault("a fraction of a month has no length: write days or weeks")
    total = local.year * 12 + local.month - 1 + int(months)
    year, month = divmod(total, 12)
    if not 1 <= year <= 9999:
        raise TimeFault("the time lies outside the years 1 to 9999")
    last = monthrange(year, month + 1)[1]
    if local.day > last:
        assumed.append(f"{year:04}-{month + 1:02} has no day {local.day}: used its last day, {last}")
    return local.replace(year=year, month=month + 1, day=min(local.day, last))
