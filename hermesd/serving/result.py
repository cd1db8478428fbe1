"""The stages after the runtime: a result is what the tool promised, and short enough for a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from hermesd.access.disclosure import disclosed
from hermesd.errors import StoreError
from hermesd.model.call import Code, Outcome
from hermesd.model.schema import MAX_DEPTH, Schema, SchemaFault, depth_fault
from hermesd.model.shorten import shorten, shorten_texts
from hermesd.model.token import exceeds
from hermesd.serving.catalogue import Entry
from hermesd.serving.course import Course, Refused
from hermesd.serving.output import Outputs, owner_of
from hermesd.serving.policy import CallPolicy

#: 10 MB take 0.15 s to be read: more than this is judged off the loop, in steps that hold it up less.
LARGE_CHARS = 256 * 1024
_UNREAD: object = object()


def is_large(outcome: Outcome) -> bool:
    """Whether judging it would hold up the loop."""
    return len(outcome.data_json) > LARGE_CHARS or len(outcome.content_json) > LARGE_CHARS


def judge(outcome: Outcome, entry: Entry, policy: CallPolicy, *, whole: bool) -> Outcome:
    """The outcome as its caller is to see it: itself, or cut (`truncated`) to what a model should pay for.

    `whole`: it is not cut. Refused, INVALID_RESULT: larger than an answer can carry, no JSON that can be
    read, or not what `returns` says.
    """
    if outcome.code is not Code.OK:
        return outcome
    _check_size(outcome, policy)
    text, data = outcome.data_json, _UNREAD
    if entry.returns is not None:
        data = _value(text)
        _check_returns(text, data, entry.returns)
    if whole or not _is_long(outcome, policy):
        return outcome
    if exceeds(text, policy.result_max_tokens):
        text = _short_data(text, _value(text) if data is _UNREAD else data, policy)
    content = _short_content(outcome.content_json, policy)
    return replace(outcome, data_json=text, content_json=content, truncated=True)


async def judge_apart(
    outcome: Outcome, course: Course, entry: Entry, policy: CallPolicy, outputs: Outputs
) -> Outcome:
    """The same for a large one, off the loop; what was cut is kept."""
    work = partial(judge, outcome, entry, policy, whole=course.request.depth > 0)
    seen = await outputs.in_thread(work)
    return await with_whole_kept(outcome, seen, course, outputs) if seen.truncated else seen


async def with_whole_kept(outcome: Outcome, seen: Outcome, course: Course, outputs: Outputs) -> Outcome:
    """What its caller sees of a result that was cut. `detail.output` says until when the whole is kept, or
    that it could not be.
    """
    # The id too: an answer that is replayed under another one leads to the same output.
    told: dict[str, object] = {
        "request_id": course.request.request_id,
        "bytes": _size(outcome.data_json),
    }
    if outcome.content_json:
        told["content_bytes"] = _size(outcome.content_json)
    try:
        expires = await outputs.keep(
            "output",
            owner_of(course.request.caller),
            course.request.request_id,
            data=outcome.data_json,
            content=outcome.content_json,
            about={"tool": course.request.tool},
        )
        assert expires is not None  # noqa: S101 - an output is not lasting
        told["expires_at"] = expires.isoformat(timespec="seconds").replace("+00:00", "Z")
        told["remedy"] = "read the whole with ReadCallOutput, or ask for less at a time"
    except StoreError as error:
        told["lost"] = disclosed(error, course.request.caller).message
        told["remedy"] = "ask for less at a time"
    return replace(seen, detail={**seen.detail, "output": told})


def _check_size(outcome: Outcome, policy: CallPolicy) -> None:
    size = _size(outcome.data_json) + _size(outcome.content_json)
    if size > policy.max_result_bytes:
        raise Refused(
            Code.INVALID_RESULT,
            f"the result has {size} bytes; {policy.max_result_bytes} is the limit",
            reason="too large",
            remedy="ask for less at a time",
        )


def _check_returns(text: str, data: object, schema: Schema) -> None:
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(data)  # else it cannot be that deep
    if schema.is_valid(data):
        return
    faults = [each.as_detail() for each in schema.faults(data)]
    first = f"{faults[0]['path'] or '/'}: {faults[0]['problem']}"
    raise Refused(
        Code.INVALID_RESULT,
        f"the tool answered what its definition excludes: {first}",
        reason="not what returns says",
        faults=faults,
    )


def _is_long(outcome: Outcome, policy: CallPolicy) -> bool:
    """Whether a model is to see less of it than there is."""
    most = policy.result_max_tokens
    if len(outcome.data_json) <= most and not outcome.content_json:
        return False  # a token has at least one character
    if exceeds(outcome.data_json, most):
        return True
    if len(outcome.content_json) <= most:
        return False
    return exceeds("\n".join(_texts(json.loads(outcome.content_json))), most)


def _short_data(text: str, data: object, policy: CallPolicy) -> str:
    head, tail = policy.result_head_tokens, policy.result_tail_tokens
    try:
        return _encode(shorten(data, head, tail))
    except ValueError:  # a number that no float holds: it goes on as the text of its digits
        return _encode(shorten(_decode_digits(text), head, tail))


def _short_content(text: str, policy: CallPolicy) -> str:
    """Images and links stay: they are no text, and the answer has room for them."""
    if not text:
        return ""
    parts: list[dict[str, Any]] = json.loads(text)
    texts = _texts(parts)
    if not exceeds("\n".join(texts), policy.result_max_tokens):
        return text
    short = iter(shorten_texts(texts, policy.result_head_tokens, policy.result_tail_tokens))
    told = [{**each, "text": next(short)} if each["type"] == "text" else each for each in parts]
    return _encode(told)


def _texts(parts: list[Mapping[str, Any]] | list[dict[str, Any]]) -> list[str]:
    return [str(each["text"]) for each in parts if each["type"] == "text"]


def _value(text: str) -> Any:
    """Raises Refused for what no reader of JSON reads: a million levels, or a number of as many digits."""
    try:
        return _decode(text)
    except (ValueError, RecursionError) as error:
        reason = str(error)[:500] or type(error).__name__
        raise Refused(
            Code.INVALID_RESULT, f"the result cannot be read as JSON: {reason}", reason=reason
        ) from None


_decode = json.JSONDecoder().decode
_decode_digits = json.JSONDecoder(parse_float=str).decode
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _check_depth(data: object) -> None:
    try:
        depth_fault(data)
    except SchemaFault as fault:
        raise Refused(
            Code.INVALID_RESULT, f"the result {fault.reason}, too deep to be checked", reason=fault.reason
        ) from None


def _size(text: str) -> int:
    """Bytes in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
