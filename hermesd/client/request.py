"""What both clients share: options, deadlines, and requests out of Python values."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from hermesd.api.v1 import admin_pb2, agent_pb2, tool_pb2
from hermesd.errors import InvalidRequestError

MESSAGE_BYTES = 16 * 1024 * 1024
TIMEOUT_S = 30.0
#: What a call's RPC is given beyond the call's own timeout, so that TIMEOUT and `effect` arrive.
CALL_MARGIN_S = 5.0
#: A reload waits for preparations and drains, each of which is bounded by the daemon.
RELOAD_S = 120.0
ATTEMPTS = 3
#: While a daemon restarts: about half a minute.
WATCH_ATTEMPTS = 20
BACKOFF_S = 0.1

OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
)


def token_metadata(token: str | None) -> tuple[tuple[str, str], ...]:
    """The metadata that carries the token."""
    return (("authorization", f"Bearer {token}"),) if token else ()


def backoff_s(attempt: int) -> float:
    """How long to wait before trying again: full jitter, doubled each time."""
    return random.uniform(0, BACKOFF_S * 2**attempt)  # noqa: S311 - spreads load, guards nothing


def call_request(
    name: str,
    arguments: Mapping[str, Any] | str | None,
    *,
    session_id: str = "",
    request_id: str = "",
    timeout_ms: int | None = None,
    idempotency_key: str = "",
    confirmation_token: str = "",
    metadata: Mapping[str, str] | None = None,
    detach: bool = False,
) -> tool_pb2.CallToolRequest:
    """A call. `arguments` are Python values, or JSON text that is passed on as it is."""
    return tool_pb2.CallToolRequest(
        name=name,
        arguments_json=arguments if isinstance(arguments, str) else json_text(arguments or {}),
        session_id=session_id,
        request_id=request_id,
        timeout_ms=timeout_ms,
        idempotency_key=idempotency_key,
        confirmation_token=confirmation_token,
        metadata=dict(metadata or {}),
        detach=detach,
    )


def call_timeout_s(timeout_ms: int | None, timeout_s: float | None, default_s: float) -> float:
    """The deadline of a call's RPC: as said, else the call's own timeout and a margin, else the default."""
    if timeout_s is not None:
        return timeout_s
    if timeout_ms is not None:
        return timeout_ms / 1000 + CALL_MARGIN_S
    return default_s


def grant_request(name: str, permissions: Mapping[str, Any], action: str) -> admin_pb2.GrantPluginRequest:
    """Grant or revoke; no permissions to revoke: all of them."""
    text = json_text(permissions) if permissions else ""
    return admin_pb2.GrantPluginRequest(name=name, permissions_json=text, action=action)


def add_agent_request(
    name: str,
    *,
    allow: Sequence[str] = (),
    deny: Sequence[str] = (),
    roles: Sequence[str] = (),
    ceiling: str = "",
    self_confirm: bool = False,
    expires: datetime | None = None,
) -> agent_pb2.AddAgentRequest:
    """An agent to be made. InvalidRequestError for an `expires` without an offset."""
    request = agent_pb2.AddAgentRequest(
        name=name,
        tools=agent_pb2.ToolRights(allow=allow, deny=deny),
        roles=roles,
        ceiling=ceiling,
        self_confirm=self_confirm,
    )
    if expires is not None:
        if expires.tzinfo is None:
            raise InvalidRequestError("expires has no offset", remedy="give an aware datetime")
        request.expires.FromDatetime(expires)
    return request


def json_text(value: Mapping[str, Any]) -> str:
    """JSON for the wire. InvalidRequestError for what JSON cannot say."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(f"arguments cannot be written as JSON: {error}") from None
