"""The operator's desk of confirmations, between its values and the messages of the API."""

from __future__ import annotations

from typing import Literal, get_args

from hermesd.api.v1 import confirmation_pb2
from hermesd.errors import InvalidRequestError
from hermesd.model.call import Caller
from hermesd.model.confirmation import Confirmation, Decision
from hermesd.rpc import paging
from hermesd.rpc.ports import Confirmations
from hermesd.rpc.translate import build, timestamp


def list_confirmations(
    request: confirmation_pb2.ListConfirmationsRequest, desk: Confirmations, room: int
) -> confirmation_pb2.ListConfirmationsResponse:
    """One page, the oldest first, of at most `room` bytes."""
    if request.state and request.state not in get_args(Decision):
        remedy = f"one of {', '.join(get_args(Decision))}"
        raise InvalidRequestError(f"state {request.state!r} does not exist", remedy=remedy)
    size = paging.page_size(request.page_size)
    question = f"confirmations {request.state}"
    last = paging.after(request.page_token, question)
    known = {
        f"{each.created_at.isoformat(timespec='microseconds')} {each.id}": each
        for each in desk.open()
        if request.state in ("", each.decision)
    }
    page, more = paging.slice_names(sorted(known), size, last)
    messages = paging.fitting(page, lambda key: confirmation_message(known[key]), room)
    more = more or len(messages) < len(page)
    return confirmation_pb2.ListConfirmationsResponse(
        confirmations=messages,
        next_page_token=paging.page_token(page[len(messages) - 1], question) if more else "",
    )


def resolve_confirmation(
    request: confirmation_pb2.ResolveConfirmationRequest, desk: Confirmations, operator: Caller
) -> confirmation_pb2.ResolveConfirmationResponse:
    """Approve or deny; what is not said in so many words is neither."""
    if not request.id:
        raise InvalidRequestError("id is empty", remedy="name the confirmation")
    if request.action not in ("approve", "deny"):
        raise InvalidRequestError(f"action {request.action!r} does not exist", remedy="approve or deny")
    decision: Literal["approved", "denied"] = "approved" if request.action == "approve" else "denied"
    resolved = desk.resolve(request.id, decision, operator, request.reason)
    return confirmation_pb2.ResolveConfirmationResponse(confirmation=confirmation_message(resolved))


def confirmation_message(confirmation: Confirmation) -> confirmation_pb2.Confirmation:
    """The message of one. The token stays here."""
    return build(
        confirmation_pb2.Confirmation,
        id=confirmation.id,
        state=confirmation.decision,
        by=confirmation.by,
        agent=confirmation.binding.principal,
        tool=confirmation.binding.tool,
        version=confirmation.version,
        session_id=confirmation.binding.session_id,
        request_id=confirmation.request_id,
        summary=confirmation.summary,
        arguments_json=confirmation.arguments_json,
        created_at=timestamp(confirmation.created_at),
        expires_at=timestamp(confirmation.expires_at),
        decided_by=confirmation.decided_by,
        reason=confirmation.reason,
    )
