"""The text plugin: counts as people count, differences that rebuild the text, and bounded extraction."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bundled import bundled

TEXT = bundled("text")
COUNTING, DIFFERING, EXTRACTING = (TEXT.part(each) for each in ("counting", "differing", "extracting"))


def test_counts_follow_words_and_chinese_characters() -> None:
    stats = TEXT.call("count_stats", text="Hello, world. It's 3.14!\n\n今天天气很好。我们去公园\n")
    assert stats == {
        "characters": 39,
        "characters_without_blanks": 33,
        "bytes_utf8": 63,
        "words": 15,
        "words_between_blanks": 4,
        "cjk_characters": 11,
        "cjk_runs": 2,
        "lines": 3,
        "blank_lines": 1,
        "paragraphs": 2,
        "sentences": 4,
    }


@pytest.mark.parametrize(("text", "lines"), [("", 0), ("a", 1), ("a\n", 1), ("a\r\nb", 2), ("\n\n", 2)])
def test_lines_are_counted_with_or_without_a_last_line_feed(text: str, lines: int) -> None:
    assert COUNTING.count(text).lines == lines


@given(st.text())
def test_counts_never_contradict_one_another(text: str) -> None:
    stats = COUNTING.count(text)
    assert stats.characters >= stats.characters_without_blanks >= stats.cjk_characters >= stats.cjk_runs
    assert stats.words == stats.words_between_blanks + stats.cjk_characters
    assert stats.lines >= stats.blank_lines


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "一\n", "\n"]), max_size=25).map("".join)


def rebuilt(before: str, diff: str) -> str:
    """What `patch` makes of it: an oracle that knows unified diffs and nothing of how they were found."""
    old = re.findall(r"[^\n]*\n|[^\n]+\Z", before)
    out: list[str] = []
    at = 0
    for line in diff.splitlines(keepends=True)[2:]:
        if line.startswith("@@"):
            begin, size = re.match(r"@@ -(\d+),(\d+)", line).groups()  # type: ignore[union-attr]
            begin = int(begin) - (1 if int(size) else 0)
            out += old[at:begin]
            at = begin
        elif line.startswith("\\"):
            out[-1] = out[-1].removesuffix("\n") if out else ""
        elif line[0] == "+":
            out.append(line[1:])
        else:
            assert old[at].removesuffix("\n") == line[1:].removesuffix("\n")
            if line[0] == " ":
                out.append(line[1:])
            at += 1
    return "".join(out + old[at:])


@given(LINES, LINES, st.integers(0, 4))
def test_a_line_diff_rebuilds_the_newer_text_and_is_a_shortest_one(old: str, new: str, context: int) -> None:
    answer = DIFFERING.compare(old, new, by="line", context=context, max_chars=100_000)
    assert answer.equal == (old == new)
    assert answer.exact
    if old != new:
        assert rebuilt(old, answer.diff) == new
        a, b = old.splitlines(), new.splitlines()
        table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
        for i, x in enumerate(a):
            for j, y in enumerate(b):
                table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
        common = table[-1][-1]
        assert (answer.removed, answer.added) == (len(a) - common, len(b) - common)


@given(st.text("ab一二 \n.", max_size=40), st.text("ab一二 \n.", max_size=40))
def test_a_word_diff_shows_both_texts(old: str, new: str) -> None:
    answer = DIFFERING.compare(old, new, by="word", context=20, max_chars=100_000)
    if old == new:
        return
    diff = answer.diff
    assert re.sub(r"\[-.*?-\]", "", re.sub(r"\{\+(.*?)\+\}", r"\1", diff, flags=re.S), flags=re.S) == new
    assert re.sub(r"\{\+.*?\+\}", "", re.sub(r"\[-(.*?)-\]", r"\1", diff, flags=re.S), flags=re.S) == old


def test_chinese_is_compared_character_by_character() -> None:
    answer = TEXT.call("diff_texts", before="我今天去北京", after="我明天去北京", by="word")
    assert answer["diff"] == "我[-今-]{+明+}天去北京"
    assert (answer["added"], answer["removed"]) == (1, 1)


def test_a_missing_last_line_feed_is_shown() -> None:
    answer = TEXT.call("diff_texts", before="a\nb\n", after="a\nb")
    assert answer["diff"].endswith("-b\n+b\n\\ No newline at end of file\n")


def test_texts_without_anything_in_common_are_compared_in_bounded_work() -> None:
    old, new = ("\n".join(f"{side}{i % 7}" for i in range(60_000)) for side in "ab")
    began = time.process_time()
    answer = DIFFERING.compare(old, new, by="line", context=3, max_chars=1000)
    assert not answer.exact
    assert answer.truncated
    assert len(answer.diff) <= 1000
    assert time.process_time() - began < 20


def test_a_coarse_diff_still_keeps_what_is_unique_in_both() -> None:
    old = (
        "".join(f"old {i}\n" for i in range(1500))
        + "the anchor\n"
        + "".join(f"tail {i}\n" for i in range(50))
    )
    new = (
        "".join(f"new {i}\n" for i in range(1500))
        + "the anchor\n"
        + "".join(f"tail {i}\n" for i in range(50))
    )
    answer = DIFFERING.compare(old, new, by="line", context=0, max_chars=200_000)
    assert (answer.added, answer.removed) == (1500, 1500)


def values(text: str, kind: str) -> list[tuple[str, str | None]]:
    answer = TEXT.call("extract_patterns", text=text, kinds=[kind])
    return [(each["text"], each["value"]) for each in answer["matches"]]


def test_addresses_and_links_are_found_without_the_sentence_around_them() -> None:
    assert values("写信给ann.lee+x@mail.example.com,或 b@c.cn。no@tld a@b", "email") == [
        ("ann.lee+x@mail.example.com", "ann.lee+x@mail.example.com"),
        ("b@c.cn", "b@c.cn"),
    ]
    text = "见https://example.com/a(b)?x=1,2。(http://b.example/c.) <ftp://d/e>"
    assert [each[0] for each in values(text, "url")] == [
        "https://example.com/a(b)?x=1,2",
        "http://b.example/c",
        "ftp://d/e",
    ]


def test_dates_are_found_in_english_and_chinese_and_doubtful_ones_have_no_value() -> None:
    text = (
        "2026-11-30, 2026年1月2日, 30 Nov 2026, December 1st, 2026, 2026年3月, "
        "03/04/2026, 31/12/2026, 2026-02-30"
    )
    assert values(text, "date") == [
        ("2026-11-30", "2026-11-30"),
        ("2026年1月2日", "2026-01-02"),
        ("30 Nov 2026", "2026-11-30"),
        ("December 1st, 2026", "2026-12-01"),
        ("2026年3月", "2026-03"),
        ("03/04/2026", None),
        ("31/12/2026", "2026-12-31"),
    ]


def test_numbers_are_read_with_separators_units_and_signs() -> None:
    text = "1,234.5 and -4, 12%, 3.5万, 共2亿人, 1e5, v2x"
    assert values(text, "number") == [
        ("1,234.5", "1234.5"),
        ("-4", "-4"),
        ("12%", "12%"),
        ("3.5万", "35000"),
        ("2亿", "200000000"),
        ("1e5", "100000"),
    ]


def test_a_template_finds_what_has_its_form() -> None:
    answer = TEXT.call(
        "extract_patterns",
        text="订单ORD-2026已发货\nord-1111 ORD-12 编号[a_1-b]",
        kinds=[],
        templates=["ORD-####", "[*]"],
    )
    assert [(each["text"], each["line"], each["template"]) for each in answer["matches"]] == [
        ("ORD-2026", 1, "ORD-####"),
        ("[a_1-b]", 2, "[*]"),
    ]
    assert (
        len(
            TEXT.call(
                "extract_patterns", text="ORD-1 ord-2", kinds=[], templates=["ord-#"], ignore_case=True
            )["matches"]
        )
        == 2
    )


@pytest.mark.parametrize("template", ["", "*", "##", "x" * 101])
def test_a_template_that_fits_everywhere_or_is_too_long_is_refused(template: str) -> None:
    assert (
        TEXT.refused("extract_patterns", text="x", kinds=[], templates=[template]).code == "INVALID_ARGUMENT"
    )


@given(st.text("a1-_#", max_size=30), st.text("a#?*-", min_size=1, max_size=8))
def test_templates_find_what_a_regular_expression_finds(text: str, template: str) -> None:
    """The regex engine is the oracle, on texts short enough for it."""
    try:
        machine = EXTRACTING.Template(template, False)
    except EXTRACTING.TemplateFault:
        return
    wild = {"#": "[0-9]", "?": "[a-z0-9]", "*": "[a-z0-9_-]*"}
    pattern = re.compile("".join(wild.get(char, re.escape(char)) for char in template))
    expected, at = [], 0
    while at < len(text):
        ends = [end for end in range(at + 1, len(text) + 1) if pattern.fullmatch(text, at, end)]
        if ends:
            expected.append((at, max(ends)))
        at = max(ends) if ends else at + 1
    assert list(machine.find_all(text, EXTRACTING.Work(lambda: None))) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "a." * 500_000,
        "1," * 500_000,
        "1" * 1_000_000,
        "a@" * 500_000,
        "https://" * 125_000,
        "a@b." * 250_000,
        "2026年" * 150_000,
        "1,111" * 200_000,
    ],
    ids=lambda text: text[:6],
)
def test_hostile_texts_are_searched_in_linear_work(text: str) -> None:
    """26 characters once cost a backtracking engine seconds; a million must not."""
    began = time.process_time()
    answer = TEXT.call("extract_patterns", text=text, templates=["a*a*a*a*b", "1*,*#"])
    assert time.process_time() - began < 30
    assert len(answer["matches"]) <= 200


def test_a_text_beyond_the_limit_is_refused_with_the_limit() -> None:
    assert "at most 1000" in bundled("text", max_chars=1000).refused("count_stats", text="x" * 1001).message


def test_a_cancelled_call_stops() -> None:
    plugin = bundled("text")
    plugin.cancelled.set()
    assert "cancelled" in plugin.refused("diff_texts", before="a\nb\nc\n", after="x\nb\ny\n").message
