"""The text tools: count, compare, extract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from hermesd.plugin import ToolContext, ToolError, tool

from .counting import TextStats, count
from .differing import By, TextDiff, compare
from .extracting import Extraction, Kind, TemplateFault, extract

DEFAULT_MAX_CHARS = 1_000_000


@tool(
    name="text.count_stats",
    side_effects="none",
    idempotent=True,
    retryable=True,
    title="Count a text",
    description=(
        "Counts characters, words, lines, paragraphs, sentences and bytes of a text. Chinese, Japanese and "
        "Korean characters count as one word each, as word processors do."
    ),
    when_to_use="The length of a text matters: limits, summaries, '多少字'.",
    when_not_to_use="A file is to be counted: read it with files.read_file first.",
    examples=[
        {"user_says": "How many words is this?", "arguments": {"text": "The quick brown fox."}},
        {"user_says": "这段话多少字?", "arguments": {"text": "今天天气很好。我们去公园。"}},
    ],
)
def count_stats(
    ctx: ToolContext,
    *,
    text: Annotated[
        str, "the text itself, from the user or another tool; may be empty; ask when there is none"
    ],
) -> TextStats:
    _check_length(ctx, text)
    return count(text)


@tool(
    name="text.diff_texts",
    side_effects="none",
    idempotent=True,
    retryable=True,
    title="Compare two texts",
    description=(
        "Shows how two texts differ: a unified diff by line, or by word with [-removed-] and "
        "{+added+}; Chinese "
        "is compared character by character."
    ),
    when_to_use="Two versions of a text are given and the difference is asked.",
    when_not_to_use="A file was changed by files.edit_file: that already answers the diff.",
    examples=[
        {"user_says": "What changed?", "arguments": {"before": "one\ntwo\n", "after": "one\n2\n"}},
        {
            "user_says": "这两句有什么不同?",
            "arguments": {"before": "我今天去北京", "after": "我明天去北京", "by": "word"},
        },
    ],
)
def diff_texts(
    ctx: ToolContext,
    *,
    before: Annotated[str, "the older text, from the user or another tool; ask when only one was given"],
    after: Annotated[str, "the newer text, from the user or another tool; ask when only one was given"],
    by: Annotated[By, "line for code, lists and documents, word for prose; line if left out"] = "line",
    context: Annotated[int, "unchanged lines to show around each change, 0 to 20; 3 if left out"] = 3,
    max_chars: Annotated[int, "longest diff to return, 100 to 200000; 20000 if left out"] = 20_000,
) -> TextDiff:
    _check_length(ctx, before)
    _check_length(ctx, after)
    _check(0 <= context <= 20, f"context must be 0 to 20, got {context}")
    _check(100 <= max_chars <= 200_000, f"max_chars must be 100 to 200000, got {max_chars}")
    return compare(before, after, by=by, context=context, max_chars=max_chars, stop=_stop(ctx))


@tool(
    name="text.extract_patterns",
    side_effects="none",
    idempotent=True,
    retryable=True,
    title="Extract from a text",
    description=(
        "Finds e-mail addresses, links, dates and numbers in a text, and what fits a simple template such as "
        "ORD-####. Takes no regular expressions."
    ),
    when_to_use="Exact values are needed from a long or messy text.",
    when_not_to_use="One short time is to be understood: use time.parse_text. Files: use files.search_text.",
    examples=[
        {
            "user_says": "Which addresses are in this mail?",
            "arguments": {"text": "Write to ann@example.com", "kinds": ["email"]},
        },
        {
            "user_says": "提取订单号",
            "arguments": {"text": "订单ORD-2026已发货", "kinds": [], "templates": ["ORD-####"]},
        },
    ],
)
def extract_patterns(
    ctx: ToolContext,
    *,
    text: Annotated[str, "the text to look through, from the user or another tool; ask when there is none"],
    kinds: Annotated[
        list[Kind] | None,
        "what to find; leave it out for all four kinds, or give [] with templates for only those",
    ] = None,
    templates: Annotated[
        list[str] | None,
        "literal texts with # for a digit, ? for a letter or digit, * for a run of letters, digits, _ and -, "
        "\\ before a literal one of these; from the form that the user describes; leave it out if "
        "there is none",
    ] = None,
    ignore_case: Annotated[bool, "true when capitals do not matter in templates; false if left out"] = False,
    max_matches: Annotated[int, "most finds to return, 1 to 2000; 200 if left out"] = 200,
) -> Extraction:
    _check_length(ctx, text)
    _check(1 <= max_matches <= 2000, f"max_matches must be 1 to 2000, got {max_matches}")
    wanted: list[Kind] = ["email", "url", "date", "number"] if kinds is None else kinds
    _check(bool(wanted or templates), "nothing to look for: give kinds or templates")
    try:
        return extract(
            text, wanted, templates or [], ignore_case=ignore_case, max_matches=max_matches, stop=_stop(ctx)
        )
    except TemplateFault as fault:
        raise ToolError(str(fault), code="INVALID_ARGUMENT", effect="none") from None


def _check_length(ctx: ToolContext, text: str) -> None:
    limit = int(ctx.settings.get("max_chars", DEFAULT_MAX_CHARS))
    _check(len(text) <= limit, f"the text has {len(text)} characters; at most {limit} are taken: split it")


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise ToolError(message, code="INVALID_ARGUMENT", effect="none")


def _stop(ctx: ToolContext) -> Callable[[], None]:
    def stop() -> None:
        if ctx.cancelled:
            raise ToolError("the call was cancelled", code="CANCELLED", effect="none")

    return stop
