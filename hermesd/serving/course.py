"""One call on its way through the dispatcher's stages, and how a stage ends it early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermesd.model.call import CallRequest, Code, Effect, Outcome, Result
from hermesd.model.confirmation import Confirmation
from hermesd.serving.catalogue import Catalogue, Entry
from hermesd.serving.time_limit import TimeLimit

if TYPE_CHECKING:
    from hermesd.serving.idempotency import Claim

Emit = Callable[[str, dict[str, object]], None]
#: What a detached call emits once nothing but its queue and its tool can refuse it any more.
ACCEPTED = "accepted"


class Refused(Exception):  # noqa: N818 - an answer on its way out, not a failure of ours
    """A stage ended the call with an answer."""

    def __init__(self, code: Code, message: str, **detail: object) -> None:
        super().__init__(message)
        self.outcome = Outcome(code, message=message, detail=detail)


@dataclass(slots=True)
class Course:
    """How far one call has come: what stages hand on to each other, and what the envelope needs.

    `started`, `deadline` and `limit` are monotonic seconds. `limit`: the latest to which progress may move
    the deadline. `allowance_s`: what the tool's own timeout gives; `attempt_s`: what one attempt may take, 0:
    all there is. `entered`: the runtime was entered, so that the first byte may have left. `effect`: what is
    known of it where it was not this tool that ran. `task`: the one that runs the call. `confirmation`: what
    somebody agreed to, and this call runs on. `claim`: its hold on its intent and idempotency key, when it
    has either. `replayed`: what its key answered instead of running it.
    """

    request: CallRequest
    emit: Emit | None
    started: float
    catalogue: Catalogue
    deadline: float = 0.0
    limit: float = 0.0
    allowance_s: float = 0.0
    attempt_s: float = 0.0
    time_limit: TimeLimit | None = None
    task: asyncio.Task[object] | None = None
    effect: Effect | None = None
    entry: Entry | None = None
    entered: bool = False
    queued_s: float = 0.0
    attempts: int = 0
    arguments: Mapping[str, object] = field(default_factory=dict)
    arguments_json: str = ""
    coerced: tuple[dict[str, object], ...] = ()
    claim: Claim | None = None
    replayed: Result | None = None
    confirmation: Confirmation | None = None
    #: What the policy refused: `see` (the caller is told that there is no such tool) or `call`.
    denied: str = ""
