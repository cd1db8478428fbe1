"""AgentService, and agents as messages."""

from __future__ import annotations

from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from hermesd.api.v1 import agent_pb2, agent_pb2_grpc
from hermesd.errors import InvalidRequestError
from hermesd.model.call import CEILINGS, Rights
from hermesd.model.definition import ROLE, ROLE_FORM
from hermesd.model.name import MAX_LENGTH, agent_name_fault
from hermesd.model.status import AgentStatus
from hermesd.rpc import paging
from hermesd.rpc.interceptor import Context, caller_of_call
from hermesd.rpc.ports import Agents
from hermesd.rpc.translate import build, timestamp

MAX_GLOBS = 200


class AgentService(agent_pb2_grpc.AgentServiceServicer):  # type: ignore[misc] # generated, untyped
    """What a caller may know of itself."""

    async def WhoAmI(self, request: agent_pb2.WhoAmIRequest, context: Context) -> agent_pb2.WhoAmIResponse:
        caller = caller_of_call.get()
        if caller.kind == "operator":
            everything = agent_pb2.ToolRights(allow=["*"])
            return agent_pb2.WhoAmIResponse(
                name=caller.name, kind="operator", tools=everything, ceiling="destructive", self_confirm=True
            )
        rights = caller.rights or Rights()
        return agent_pb2.WhoAmIResponse(
            name=caller.name,
            kind=caller.kind,
            roles=rights.roles,
            tools=agent_pb2.ToolRights(allow=rights.allow, deny=rights.deny),
            ceiling=rights.ceiling,
            self_confirm=rights.self_confirm,
            expires=_expires(rights),
        )


class AgentDesk:
    """The operator's RPCs about agents; the interceptor has refused everybody else."""

    def __init__(self, agents: Agents, room: int) -> None:
        self._agents = agents
        self._room = room

    def list(self, request: agent_pb2.ListAgentsRequest) -> agent_pb2.ListAgentsResponse:
        size = paging.page_size(request.page_size)
        last = paging.after(request.page_token, "agents")
        known = {each.name: each for each in self._agents.known()}
        page, more = paging.slice_names(sorted(known), size, last)
        agents = paging.fitting(page, lambda name: agent_message(known[name]), self._room)
        more = more or len(agents) < len(page)
        return agent_pb2.ListAgentsResponse(
            agents=agents,
            next_page_token=paging.page_token(page[len(agents) - 1], "agents") if more else "",
        )

    async def add(self, request: agent_pb2.AddAgentRequest) -> agent_pb2.AddAgentResponse:
        name = _name(request.name)
        agent, token = await self._agents.add(name, _rights(request), caller_of_call.get())
        return agent_pb2.AddAgentResponse(agent=agent_message(agent), token=token)

    async def rotate(self, request: agent_pb2.RotateAgentRequest) -> agent_pb2.RotateAgentResponse:
        agent, token = await self._agents.rotate(_name(request.name), caller_of_call.get())
        return agent_pb2.RotateAgentResponse(agent=agent_message(agent), token=token)

    async def revoke(self, request: agent_pb2.RevokeAgentRequest) -> agent_pb2.RevokeAgentResponse:
        await self._agents.revoke(_name(request.name), caller_of_call.get())
        return agent_pb2.RevokeAgentResponse()


def agent_message(agent: AgentStatus) -> agent_pb2.Agent:
    rights = agent.rights
    message: agent_pb2.Agent = build(
        agent_pb2.Agent,
        name=agent.name,
        state=agent.state,
        origin=agent.origin,
        roles=rights.roles,
        tools=agent_pb2.ToolRights(allow=rights.allow, deny=rights.deny),
        ceiling=rights.ceiling,
        self_confirm=rights.self_confirm,
        expires=_expires(rights),
        has_token=agent.has_token,
        by=agent.by,
        at=None if agent.at is None else timestamp(agent.at),
        place=agent.place,
    )
    return message


def _expires(rights: Rights) -> Timestamp | None:
    return None if rights.expires is None else timestamp(rights.expires)


def _name(name: str) -> str:
    if (fault := agent_name_fault(name)) is not None:
        raise InvalidRequestError(fault, remedy="choose another name")
    return name


def _rights(request: agent_pb2.AddAgentRequest) -> Rights:
    """What the request gives. InvalidRequestError says what cannot be given."""
    ceiling = request.ceiling or "write"
    if ceiling not in CEILINGS:
        raise InvalidRequestError(
            f"ceiling {ceiling!r} does not exist", remedy=f"one of {', '.join(CEILINGS)}"
        )
    for role in request.roles:
        if ROLE.match(role) is None:
            raise InvalidRequestError(f"{role[:100]!r} is no role: {ROLE_FORM}", remedy="choose another one")
    expires = _moment(request.expires) if request.HasField("expires") else None
    return Rights(
        roles=tuple(dict.fromkeys(request.roles)) or ("agent",),
        allow=_globs(request.tools.allow),
        deny=_globs(request.tools.deny),
        ceiling=ceiling,  # type: ignore[arg-type] # one of them, as was checked
        self_confirm=request.self_confirm,
        expires=expires,
    )


def _globs(globs: object) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(globs))  # type: ignore[call-overload] # a repeated field of texts
    for each in found:
        if not each or len(each) > MAX_LENGTH or not each.isprintable():
            raise InvalidRequestError(f"{each[:100]!r} is no glob of tool names", remedy='write "orders.*"')
    if len(found) > MAX_GLOBS:
        raise InvalidRequestError(f"{len(found)} globs are more than {MAX_GLOBS}", remedy="use wider ones")
    return found


def _moment(stamp: Timestamp) -> datetime:
    try:
        return stamp.ToDatetime(UTC)
    except (ValueError, OverflowError):
        raise InvalidRequestError("expires is no point in time", remedy="give a timestamp") from None
