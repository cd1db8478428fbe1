"""What is written down before a tool may change something, and what an idempotency key answers later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime

from hermesd.model.call import Caller, Code, Result, SideEffects

#: What a caller whose call was cut off between effect and record can do.
LOOK_FIRST = "find out whether it happened before you call again, then with a new idempotency_key"


@dataclass(frozen=True, slots=True)
class Intent:
    """A call that is about to enter its runtime. `id` is its own; a `request_id` may come again.

    `repeatable`: running it once more does no harm, as the tool only reads or says that it is idempotent.
    `idempotency_key` "" : it has none. `digest` is that of the final arguments, "" without a key.
    """

    id: str
    request_id: str
    parent_request_id: str
    session_id: str
    principal: str
    tool: str
    version: str
    generation: int
    source: str
    plugin: str
    side_effects: SideEffects
    repeatable: bool
    idempotency_key: str
    digest: str
    began: datetime


@dataclass(frozen=True, slots=True)
class Recorded:
    """What an idempotency key answers: to whom brings the arguments with this digest."""

    digest: str
    result: Result


def principal_of(caller: Caller) -> str:
    """Whose keys they are: `operator`, or `agent:NAME`."""
    principal = caller.principal
    return principal.kind if principal.kind == "operator" else f"{principal.kind}:{principal.name}"


def result_text(result: Result) -> str:
    """The result as JSON text, for `result_from`."""
    value = asdict(result)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character, from a tool's own message: only an escape can hold it
        return json.dumps(value, separators=(",", ":"))
    return text


def result_from(text: str) -> Result:
    """The result that `result_text` wrote. Fields that this build does not know are left out."""
    value: Mapping[str, object] = json.loads(text)
    known = {each.name: value[each.name] for each in fields(Result) if each.name in value}
    return Result(**{**known, "code": Code(str(value["code"]))})  # type: ignore[arg-type] # as they were written


def fate_unknown(intent: Intent) -> Result:
    """What is known of a call that ran when the daemon was killed."""
    harmless = intent.side_effects in ("none", "read")
    return Result(
        code=Code.UNAVAILABLE,
        message="the daemon was stopped while this call ran; how it ended is not known",
        data_json="null",
        request_id=intent.request_id,
        session_id=intent.session_id,
        tool=intent.tool,
        version=intent.version,
        generation=intent.generation,
        attempts=1,
        duration_ms=0.0,
        queued_ms=0.0,
        retryable=intent.repeatable,
        effect="none" if harmless else "unknown",
        detail={"reason": "interrupted", "remedy": "call again" if intent.repeatable else LOOK_FIRST},
    )
