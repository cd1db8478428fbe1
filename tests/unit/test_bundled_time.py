"""The time plugin: what a text means, where the clock jumps, and what was assumed."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bundled import bundled

TIME = bundled("time")
READING, ZONE, INSTANT = TIME.part("reading"), TIME.part("zone"), TIME.part("instant")
NOW = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)  # a Monday, 18:00 in Shanghai
SHANGHAI = ZoneInfo("Asia/Shanghai")


def meaning(text: str, **options: object) -> str:
    return str(READING.read_time(text, **{"now": NOW, "zone": SHANGHAI, **options}).moment.isoformat())


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-30T15:04:05Z", "2026-11-30T15:04:05+00:00"),
        ("2026-11-30T15:04:05.5+08:00", "2026-11-30T15:04:05.500000+08:00"),
        ("2026-11-30", "2026-11-30T00:00:00+08:00"),
        ("2026-11", "2026-11-01T00:00:00+08:00"),
        ("20261130", "2026-11-30T00:00:00+08:00"),
        ("20261130150405", "2026-11-30T15:04:05+08:00"),
        ("2026-W49-1", "2026-11-30T00:00:00+08:00"),
        ("Mon, 30 Nov 2026 15:04:05 +0800", "2026-11-30T15:04:05+08:00"),
        ("Mon, 30 Nov 2026 15:04:05 CST", "2026-11-30T15:04:05-06:00"),
        ("30 Nov 2026 15:04 GMT", "2026-11-30T15:04:00+00:00"),
        ("Sat Nov 28 10:00:00 2026", "2026-11-28T10:00:00+08:00"),
        ("1796029445", "2026-11-30T17:04:05+08:00"),
        ("1796029445123", "2026-11-30T17:04:05.123000+08:00"),
        ("@0", "1970-01-01T08:00:00+08:00"),
        ("-1796029445", "1913-02-01T22:55:55+08:00"),
        ("Nov 30, 2026 3:04 pm", "2026-11-30T15:04:00+08:00"),
        ("30th of November 2026", "2026-11-30T00:00:00+08:00"),
        ("12 am", "2026-11-30T00:00:00+08:00"),
        ("2026/11/30 15:00 UTC+8", "2026-11-30T15:00:00+08:00"),
        ("tomorrow at 3pm America/New_York", "2026-12-01T15:00:00-05:00"),
        ("yesterday noon", "2026-11-29T12:00:00+08:00"),
        ("3 days ago", "2026-11-27T18:00:00+08:00"),
        ("in 2 hours and 30 minutes", "2026-11-30T20:30:00+08:00"),
        ("half an hour ago", "2026-11-30T17:30:00+08:00"),
        ("three weeks from now", "2026-12-21T18:00:00+08:00"),
        ("next Friday 5pm", "2026-12-04T17:00:00+08:00"),
        ("last monday", "2026-11-23T00:00:00+08:00"),
        ("2026年11月30日 下午3点", "2026-11-30T15:00:00+08:00"),
        ("二〇二六年十一月三十日", "2026-11-30T00:00:00+08:00"),
        ("十一月三十号下午三点一刻", "2026-11-30T15:15:00+08:00"),
        ("２０２６年１１月３０日", "2026-11-30T00:00:00+08:00"),
        ("北京时间2026年11月30日15:00", "2026-11-30T15:00:00+08:00"),
        ("明天", "2026-12-01T00:00:00+08:00"),
        ("大后天 14:30", "2026-12-03T14:30:00+08:00"),
        ("今晚8点半", "2026-11-30T20:30:00+08:00"),
        ("凌晨12点", "2026-11-30T00:00:00+08:00"),
        ("中午1点", "2026-11-30T13:00:00+08:00"),
        ("晚上12点", "2026-12-01T00:00:00+08:00"),
        ("三天前", "2026-11-27T18:00:00+08:00"),
        ("两个半小时后", "2026-11-30T20:30:00+08:00"),
        ("1周2天前", "2026-11-21T18:00:00+08:00"),
        ("下周一上午9点半", "2026-12-07T09:30:00+08:00"),
        ("上周五", "2026-11-27T00:00:00+08:00"),
        ("周日", "2026-12-06T00:00:00+08:00"),
    ],
)
def test_a_time_is_understood_as_people_and_programs_write_it(text: str, moment: str) -> None:
    assert meaning(text) == moment


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "empty"),
        ("soon", "soon"),
        ("2026-02-30", "2026-02-30 is no date"),
        ("25:00", "no time of day"),
        ("13 pm", "1 to 12"),
        ("3pm CST", "Asia/Shanghai"),
        ("03/04/2026", "order"),
        ("昨天下午", "add the hour"),
        ("晚上2点", "凌晨2点"),
        ("12345", "Unix time"),
        ("in 99999999 years", "years 1 to 9999"),
        ("999999999 days ago", "years 1 to 9999"),
        ("1.5 months ago", "fraction of a month"),
        ("3 days ago 2026-11-30", "do not go together"),
        ("x" * 201, "at most 200"),
        ("2026-11-30 15:00 Mars/Base", "unknown zone"),
    ],
)
def test_what_cannot_be_understood_is_named_and_never_guessed(text: str, part: str) -> None:
    with pytest.raises(ZONE.TimeFault, match=part):
        meaning(text)


def test_a_day_and_month_that_may_be_swapped_need_the_order() -> None:
    assert meaning("03/04/2026", order="day_first").startswith("2026-04-03")
    assert meaning("03/04/2026", order="month_first").startswith("2026-03-04")
    assert meaning("30/11/2026").startswith("2026-11-30")


def test_everything_that_was_assumed_is_said() -> None:
    reading = READING.read_time("30号", now=NOW, zone=SHANGHAI)
    assert reading.assumed == [
        "no month in the text: used 2026-11",
        "no time of day in the text: used the start of the day",
        "no zone in the text: used Asia/Shanghai",
    ]
    wrong_day = READING.read_time("Tue, 30 Nov 2026 10:00 +0000", now=NOW, zone=UTC)
    assert "weekday" in wrong_day.assumed[0]
    short = READING.read_time("in 3 months", now=NOW, zone=SHANGHAI)
    assert "2027-02 has no day 30" in short.assumed[0]


def test_a_local_time_that_happened_twice_says_so_and_can_be_picked() -> None:
    zone = ZONE.find_zone("america/new york")
    earlier = READING.read_time("2026-11-01 01:30", now=NOW, zone=zone)
    later = READING.read_time("2026-11-01 01:30", now=NOW, zone=zone, pick="later")
    assert earlier.ambiguity.kind == later.ambiguity.kind == "fold"
    assert later.moment.astimezone(UTC) - earlier.moment.astimezone(UTC) == timedelta(hours=1)
    assert earlier.moment.isoformat() == "2026-11-01T01:30:00-04:00"
    assert "twice" in earlier.assumed[-1]


def test_a_local_time_that_never_happened_says_so() -> None:
    reading = READING.read_time("2026-03-08 02:30", now=NOW, zone=ZoneInfo("America/New_York"))
    assert reading.ambiguity.kind == "gap"
    assert reading.moment.isoformat() == "2026-03-08T03:30:00-04:00"
    assert "never happened" in reading.ambiguity.explanation


def test_days_are_counted_on_the_calendar_and_hours_on_the_clock_across_a_change() -> None:
    zone = ZoneInfo("Europe/Berlin")
    now = datetime(2026, 3, 28, 12, 0, tzinfo=zone)
    day = READING.read_time("in 1 day", now=now, zone=zone).moment
    hours = READING.read_time("in 24 hours", now=now, zone=zone).moment
    assert (day.hour, hours.hour) == (12, 13)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Asia/Beijing", "Asia/Shanghai"),
        ("上海", "Asia/Shanghai"),
        ("Europe/Londn", "Europe/London"),
        ("shanghai", "Asia/Shanghai"),
    ],
)
def test_an_unknown_zone_names_the_nearest(name: str, near: str) -> None:
    error = TIME.refused("get_now", zone=name)
    assert error.code == "INVALID_ARGUMENT"
    assert error.effect == "none"
    assert near in error.message


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/localtime", "\0", "posixrules/../UTC", "a" * 999])
def test_a_zone_name_never_reads_another_file(name: str) -> None:
    assert "unknown zone" in TIME.refused("get_now", zone=name).message


def test_now_has_every_form_and_uses_the_operators_zone() -> None:
    tools = TIME.part("tools")
    present = tools.now_in(
        datetime(2026, 11, 30, 7, 4, 5, 250_000, tzinfo=UTC), SHANGHAI, list(INSTANT.FORMATS)
    )
    assert present.formats == {
        "iso": "2026-11-30T15:04:05.250000+08:00",
        "rfc2822": "Mon, 30 Nov 2026 15:04:05 +0800",
        "epoch_s": "1796022245",
        "epoch_ms": "1796022245250",
        "date": "2026-11-30",
        "clock": "15:04:05",
        "english": "Monday, 30 November 2026, 15:04:05",
        "chinese": "2026年11月30日 星期一 15:04:05",
    }
    assert (present.instant.iso_week, present.instant.day_of_year) == ("2026-W49-1", 334)
    assert bundled("time", zone="Asia/Tokyo").call("get_now", formats=[])["instant"]["offset"] == "+09:00"


def test_a_conversion_tells_both_ends_and_the_day_between() -> None:
    answer = TIME.call(
        "convert_zone", text="2026-11-30 09:00", from_zone="Asia/Shanghai", to_zone="America/New_York"
    )
    assert answer["target"]["iso"] == "2026-11-29T20:00:00-05:00"
    assert (answer["difference_minutes"], answer["day_change"]) == (-780, -1)


def test_relative_words_count_from_the_time_that_the_caller_names() -> None:
    answer = TIME.call(
        "parse_text", text="三天前", zone="Asia/Shanghai", relative_to="2026-01-02T08:00:00+08:00"
    )
    assert answer["instant"]["iso"] == "2025-12-30T08:00:00+08:00"
    assert answer["form"] == "relative"


@given(st.datetimes(datetime(1971, 1, 2), datetime(9998, 1, 1)), st.integers(-14 * 60, 14 * 60))
def test_an_iso_time_with_an_offset_comes_back_as_it_was(local: datetime, minutes: int) -> None:
    moment = local.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert READING.read_time(moment.isoformat(), now=NOW, zone=SHANGHAI).moment == moment


@given(st.integers(10**8, 10**10 - 1))
def test_unix_seconds_and_milliseconds_mean_the_same(seconds: int) -> None:
    whole = READING.read_time(str(seconds), now=NOW, zone=UTC).moment
    fine = READING.read_time(f"{seconds}000", now=NOW, zone=UTC).moment
    assert whole == fine == datetime.fromtimestamp(seconds, UTC)


PIECES = [
    *(
        "3",
        "半",
        "一",
        "天",
        "年",
        "月",
        "日",
        "号",
        "周",
        "小时",
        "前",
        "后",
        "下午",
        "点",
        "明天",
        "\0",
        "\ud800",
    ),
    *("in", "ago", "days", "a", ".", ":", "/", "-", "+", "2026", "12:30", "pm", "utc", " "),
]
WORDS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@given(st.one_of(st.text(max_size=200), WORDS))
def test_any_text_gives_a_time_or_a_clear_refusal(text: str) -> None:
    with suppress(ZONE.TimeFault):
        INSTANT.describe(READING.read_time(text, now=NOW, zone=SHANGHAI).moment)
