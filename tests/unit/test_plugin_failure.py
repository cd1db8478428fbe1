import pytest

from hermesd.plugin.failure import MAX_MESSAGE_CHARS, answer_of, is_unexpected, trace_of
from hermesd.plugin.fault import ArgumentFault, ResultFault, ToolCallError, ToolError


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            ToolError("没有", effect="none", retryable=True, detail={"a": 1}),
            {
                "code": "TOOL_ERROR",
                "message": "没有",
                "effect": "none",
                "retryable": True,
                "detail": {"a": 1},
            },
        ),
        (
            ToolCallError("TIMEOUT", "slow", {"b": 2}),
            {
                "code": "DEPENDENCY_FAILED",
                "message": "a called tool failed: TIMEOUT: slow",
                "detail": {"reason": "TIMEOUT", "b": 2},
            },
        ),
        (
            ArgumentFault("is no date", "/day", expected="a date", got="30 February"),
            {
                "code": "INVALID_ARGUMENT",
                "message": "/day: is no date",
                "effect": "none",
                "detail": {
                    "faults": [
                        {"path": "/day", "problem": "is no date", "expected": "a date", "got": "30 February"}
                    ]
                },
            },
        ),
        (
            ResultFault("is a set", "/x"),
            {
                "code": "INVALID_RESULT",
                "message": "the result at /x is a set",
                "detail": {"reason": "is a set"},
            },
        ),
        (SystemExit(3), {"code": "TOOL_ERROR", "message": "the tool called sys.exit(3)"}),
        (ValueError("first\nsecond"), {"code": "TOOL_ERROR", "message": "ValueError: first"}),
        (KeyError(), {"code": "TOOL_ERROR", "message": "KeyError"}),
        (UnspeakableError(), {"code": "TOOL_ERROR", "message": "UnspeakableError"}),
    ],
)
def test_whatever_a_tool_raises_is_one_clear_answer(error, expected):
    assert answer_of(error) == expected


def test_a_message_is_bounded_and_a_detail_that_is_no_json_is_described():
    answer = answer_of(ToolError("x" * 10_000, detail={"thing": object()}))
    assert len(answer["message"]) == MAX_MESSAGE_CHARS + 1
    assert answer["detail"]["thing"].startswith("<object object")


def test_only_what_nobody_meant_to_raise_is_traced():
    assert not is_unexpected(ToolError("meant"))
    assert is_unexpected(ValueError("not meant"))
    assert "UnspeakableError" in trace_of(UnspeakableError())
