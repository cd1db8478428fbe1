"""A call's result as a client sees it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from hermesd.api.v1 import output_pb2, tool_pb2
from hermesd.client.error import ToolFailedError


@dataclass(frozen=True)
class CallResult:
    """The envelope of an answer; `response` is the message, `data` and `detail` are parsed when asked for."""

    response: tool_pb2.CallToolResponse

    @property
    def _result(self) -> tool_pb2.Result:
        return self.response.result

    @cached_property
    def data(self) -> Any:
        """What the tool returned. Integers of any length stay exact."""
        return json.loads(self._result.data_json or "null")

    @cached_property
    def detail(self) -> dict[str, Any]:
        """Faults of the arguments, nearest names, reason, remedy, …"""
        parsed: dict[str, Any] = json.loads(self._result.detail_json or "{}")
        return parsed

    @property
    def ok(self) -> bool:
        return self._result.status == "ok"

    @property
    def status(self) -> str:
        return self._result.status

    @property
    def code(self) -> str:
        return self._result.code

    @property
    def message(self) -> str:
        return self._result.message

    @property
    def effect(self) -> str:
        """Whether the tool's side effect can have happened: none, done or unknown."""
        return self._result.effect

    @property
    def retryable(self) -> bool:
        return self._result.retryable

    @property
    def request_id(self) -> str:
        return self._result.request_id

    @property
    def session_id(self) -> str:
        return self._result.session_id

    @property
    def tool(self) -> str:
        return self._result.tool

    @property
    def version(self) -> str:
        return self._result.version

    @property
    def generation(self) -> int:
        return self._result.generation

    @property
    def attempts(self) -> int:
        return self._result.attempts

    @property
    def duration_ms(self) -> float:
        return self._result.duration_ms

    @property
    def queued_ms(self) -> float:
        return self._result.queued_ms

    @property
    def truncated(self) -> bool:
        """The data or a text of the content was cut; the client's `call_output(request_id)` has the whole."""
        return self._result.truncated

    @property
    def confirmation_token(self) -> str:
        """What the same call has to show, where this one needs agreement first; "" otherwise."""
        return str(self.detail.get("confirmation_token", ""))

    @property
    def content(self) -> Sequence[output_pb2.ContentPart]:
        """What the tool shows beside its data: texts, images, links."""
        return self._result.content

    @property
    def detached(self) -> bool:
        """The call goes on; `watch_call(request_id)` of the client gives its result."""
        return self.detail.get("detached") is True

    def raise_for_error(self) -> Self:
        """Itself when ok; ToolFailedError otherwise."""
        if not self.ok:
            raise ToolFailedError(self)
        return self
