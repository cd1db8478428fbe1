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


class UntellableError(Exception):
    def __str__(self) -> str:
        raise SystemExit(7)

    __repr__ = __str__


@pytest.mark.promise("HOS-1")
def test_an_error_whose_own_text_raises_is_an_answer_all_the_same():
    assert answer_of(UntellableError())["code"] == "TOOL_ERROR"
    assert "UntellableError" in answer_of(UntellableError())["message"]
    assert "UntellableError" in trace_of(UntellableError())
    assert "SystemExit" in answer_of(SystemExit(UntellableError()))["message"]
    detail = answer_of(ToolError("no", detail={"why": UntellableError()}))["detail"]
    assert detail == {"why": "<UntellableError>"}


@pytest.mark.promise("HOS-1")
def test_what_a_plugin_wrote_over_the_fields_of_its_error_is_put_right():
    error = ToolError("no")
    error.code, error.effect, error.message = "OK", "maybe", 5  # type: ignore[assignment]
    answer = answer_of(error)
    assert (answer["code"], answer["effect"], answer["message"]) == ("TOOL_ERROR", None, "5")


@pytest.mark.promise("HOS-2")
def test_a_large_detail_keeps_what_fits_and_counts_the_rest():
    answer = answer_of(ToolError("no", detail={"page": "x" * 10_000_000, "order": 7}))
    assert answer["detail"] == {"order": 7, "cut": 1}
    assert answer_of(ToolError("no", detail={"n": 10**5000}))["detail"].keys() == {"n"}
