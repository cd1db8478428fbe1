"""What the operator asks of the daemon, blocking: AdminService, method by method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from hermesd.api.v1 import (
    admin_pb2,
    agent_pb2,
    circuit_pb2,
    confirmation_pb2,
)
from hermesd.client.request import (
    RELOAD_S,
    add_agent_request,
    grant_request,
)


class Administration(ABC):
    """The administrative half of a client, which has the connection and says how a request is sent."""

    _admin: Any
    _timeout_s: float

    def plugins(self, *, state: str = "") -> Iterator[admin_pb2.Plugin]:
        """All plugins, page by page."""
        token = ""
        while True:
            page = self.list_plugins(page_size=1000, page_token=token, state=state)
            yield from page.plugins
            token = page.next_page_token
            if not token:
                return

    def agents(self) -> Iterator[agent_pb2.Agent]:
        """All agents, page by page."""
        token = ""
        while True:
            page = self.list_agents(page_size=1000, page_token=token)
            yield from page.agents
            token = page.next_page_token
            if not token:
                return

    def confirmations(self, *, state: str = "") -> Iterator[confirmation_pb2.Confirmation]:
        """All calls that need agreement, page by page."""
        token = ""
        while True:
            page = self.list_confirmations(page_size=1000, page_token=token, state=state)
            yield from page.confirmations
            token = page.next_page_token
            if not token:
                return

    def get_status(self) -> admin_pb2.GetStatusResponse:
        """What the daemon is and does now."""
        answer: admin_pb2.GetStatusResponse = self._read(
            self._admin.GetStatus, admin_pb2.GetStatusRequest(), self._timeout_s
        )
        return answer

    def get_config(self) -> admin_pb2.GetConfigResponse:
        """The effective configuration, secrets masked."""
        answer: admin_pb2.GetConfigResponse = self._read(
            self._admin.GetConfig, admin_pb2.GetConfigRequest(), self._timeout_s
        )
        return answer

    def reload(
        self,
        name: str = "",
        *,
        dry_run: bool = False,
        atomic: bool = False,
        no_wait: bool = False,
        if_revision: str = "",
        timeout_s: float = RELOAD_S,
    ) -> admin_pb2.ReloadResponse:
        """Read configuration and plugins again; rejections are in the answer. RaceLostError: old revision."""
        answer: admin_pb2.ReloadResponse = self._write(
            self._admin.Reload,
            admin_pb2.ReloadRequest(
                name=name, dry_run=dry_run, atomic=atomic, no_wait=no_wait, if_revision=if_revision
            ),
            timeout_s,
        )
        return answer

    def drain(self) -> admin_pb2.DrainResponse:
        """Take no new calls."""
        answer: admin_pb2.DrainResponse = self._write(
            self._admin.Drain, admin_pb2.DrainRequest(), self._timeout_s
        )
        return answer

    def resume(self) -> admin_pb2.ResumeResponse:
        """Take calls again."""
        answer: admin_pb2.ResumeResponse = self._write(
            self._admin.Resume, admin_pb2.ResumeRequest(), self._timeout_s
        )
        return answer

    def shutdown(self) -> admin_pb2.ShutdownResponse:
        """End the daemon; answers at once."""
        answer: admin_pb2.ShutdownResponse = self._write(
            self._admin.Shutdown, admin_pb2.ShutdownRequest(), self._timeout_s
        )
        return answer

    def dump_state(self) -> admin_pb2.DumpStateResponse:
        """Everything that helps to find a fault."""
        answer: admin_pb2.DumpStateResponse = self._read(
            self._admin.DumpState, admin_pb2.DumpStateRequest(), self._timeout_s
        )
        return answer

    def list_plugins(
        self, *, page_size: int = 0, page_token: str = "", state: str = ""
    ) -> admin_pb2.ListPluginsResponse:
        """One page of the plugins; `plugins` goes through all pages."""
        answer: admin_pb2.ListPluginsResponse = self._read(
            self._admin.ListPlugins,
            admin_pb2.ListPluginsRequest(page_size=page_size, page_token=page_token, state=state),
            self._timeout_s,
        )
        return answer

    def get_plugin(self, name: str) -> admin_pb2.GetPluginResponse:
        """One plugin. MissingError when there is none."""
        answer: admin_pb2.GetPluginResponse = self._read(
            self._admin.GetPlugin, admin_pb2.GetPluginRequest(name=name), self._timeout_s
        )
        return answer

    def list_plugin_history(
        self, name: str, *, page_size: int = 0, page_token: str = ""
    ) -> admin_pb2.ListPluginHistoryResponse:
        """Contents that were served, newest first."""
        answer: admin_pb2.ListPluginHistoryResponse = self._read(
            self._admin.ListPluginHistory,
            admin_pb2.ListPluginHistoryRequest(name=name, page_size=page_size, page_token=page_token),
            self._timeout_s,
        )
        return answer

    def set_plugin(self, name: str, *, enabled: bool) -> admin_pb2.SetPluginResponse:
        """Enable or disable a plugin."""
        answer: admin_pb2.SetPluginResponse = self._write(
            self._admin.SetPlugin, admin_pb2.SetPluginRequest(name=name, enabled=enabled), self._timeout_s
        )
        return answer

    def trust_plugin(
        self, name: str, *, digest: str = "", isolation: str = "", follow: bool = False
    ) -> admin_pb2.TrustPluginResponse:
        """Pin a plugin's content as trusted."""
        answer: admin_pb2.TrustPluginResponse = self._write(
            self._admin.TrustPlugin,
            admin_pb2.TrustPluginRequest(
                name=name, digest=digest, isolation=isolation, follow=follow, action="trust"
            ),
            self._timeout_s,
        )
        return answer

    def untrust_plugin(self, name: str) -> admin_pb2.TrustPluginResponse:
        """Take trust back."""
        answer: admin_pb2.TrustPluginResponse = self._write(
            self._admin.TrustPlugin,
            admin_pb2.TrustPluginRequest(name=name, action="untrust"),
            self._timeout_s,
        )
        return answer

    def grant_plugin(self, name: str, permissions: Mapping[str, Any]) -> admin_pb2.GrantPluginResponse:
        """Grant permissions, in the shape of a manifest's."""
        answer: admin_pb2.GrantPluginResponse = self._write(
            self._admin.GrantPlugin, grant_request(name, permissions, "grant"), self._timeout_s
        )
        return answer

    def revoke_plugin(
        self, name: str, permissions: Mapping[str, Any] | None = None
    ) -> admin_pb2.GrantPluginResponse:
        """Take permissions back; None: all of them."""
        answer: admin_pb2.GrantPluginResponse = self._write(
            self._admin.GrantPlugin, grant_request(name, permissions or {}, "revoke"), self._timeout_s
        )
        return answer

    def rollback_plugin(self, name: str, *, digest: str = "") -> admin_pb2.RollbackPluginResponse:
        """Serve an earlier content again."""
        answer: admin_pb2.RollbackPluginResponse = self._write(
            self._admin.RollbackPlugin,
            admin_pb2.RollbackPluginRequest(name=name, digest=digest),
            self._timeout_s,
        )
        return answer

    def set_tool(self, name: str, *, enabled: bool) -> admin_pb2.SetToolResponse:
        """Enable or disable one tool."""
        answer: admin_pb2.SetToolResponse = self._write(
            self._admin.SetTool, admin_pb2.SetToolRequest(name=name, enabled=enabled), self._timeout_s
        )
        return answer

    def list_agents(self, *, page_size: int = 0, page_token: str = "") -> agent_pb2.ListAgentsResponse:
        """One page of the agents; `agents` goes through all pages."""
        answer: agent_pb2.ListAgentsResponse = self._read(
            self._admin.ListAgents,
            agent_pb2.ListAgentsRequest(page_size=page_size, page_token=page_token),
            self._timeout_s,
        )
        return answer

    def add_agent(
        self,
        name: str,
        *,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        roles: Sequence[str] = (),
        ceiling: str = "",
        self_confirm: bool = False,
        expires: datetime | None = None,
    ) -> agent_pb2.AddAgentResponse:
        """Make an agent; its token is in the answer and nowhere else. `expires` is aware."""
        request = add_agent_request(
            name,
            allow=allow,
            deny=deny,
            roles=roles,
            ceiling=ceiling,
            self_confirm=self_confirm,
            expires=expires,
        )
        answer: agent_pb2.AddAgentResponse = self._write(self._admin.AddAgent, request, self._timeout_s)
        return answer

    def rotate_agent(self, name: str) -> agent_pb2.RotateAgentResponse:
        """Give an agent a new token; the old one is refused from now on."""
        answer: agent_pb2.RotateAgentResponse = self._write(
            self._admin.RotateAgent, agent_pb2.RotateAgentRequest(name=name), self._timeout_s
        )
        return answer

    def revoke_agent(self, name: str) -> agent_pb2.RevokeAgentResponse:
        """Remove an agent; what it has open ends."""
        answer: agent_pb2.RevokeAgentResponse = self._write(
            self._admin.RevokeAgent, agent_pb2.RevokeAgentRequest(name=name), self._timeout_s
        )
        return answer

    def list_confirmations(
        self, *, page_size: int = 0, page_token: str = "", state: str = ""
    ) -> confirmation_pb2.ListConfirmationsResponse:
        """One page of the calls that wait for somebody's agreement or have it, the oldest first."""
        answer: confirmation_pb2.ListConfirmationsResponse = self._read(
            self._admin.ListConfirmations,
            confirmation_pb2.ListConfirmationsRequest(
                page_size=page_size, page_token=page_token, state=state
            ),
            self._timeout_s,
        )
        return answer

    def approve_confirmation(
        self, confirmation: str, *, reason: str = ""
    ) -> confirmation_pb2.ResolveConfirmationResponse:
        """Let a call run that waits for the operator; its id, or its token. MissingError: there is none."""
        answer: confirmation_pb2.ResolveConfirmationResponse = self._write(
            self._admin.ResolveConfirmation,
            confirmation_pb2.ResolveConfirmationRequest(id=confirmation, action="approve", reason=reason),
            self._timeout_s,
        )
        return answer

    def deny_confirmation(
        self, confirmation: str, *, reason: str = ""
    ) -> confirmation_pb2.ResolveConfirmationResponse:
        """Refuse a call that waits; its caller is told `reason`. MissingError: there is none."""
        answer: confirmation_pb2.ResolveConfirmationResponse = self._write(
            self._admin.ResolveConfirmation,
            confirmation_pb2.ResolveConfirmationRequest(id=confirmation, action="deny", reason=reason),
            self._timeout_s,
        )
        return answer

    def reset_circuit(self, name: str) -> circuit_pb2.ResetCircuitResponse:
        """Let a tool be called at once that is held back because it could not be reached."""
        answer: circuit_pb2.ResetCircuitResponse = self._write(
            self._admin.ResetCircuit, circuit_pb2.ResetCircuitRequest(name=name), self._timeout_s
        )
        return answer

    def watch_events(
        self, *, after_seq: int | None = None, recent: int | None = None, follow: bool = True
    ) -> Iterator[admin_pb2.WatchEventsResponse]:
        """The daemon's events; the first is `started`."""
        return self._stream(
            self._admin.WatchEvents,
            admin_pb2.WatchEventsRequest(after_seq=after_seq, recent=recent, no_follow=not follow),
            None,
        )

    def read_plugin_log(
        self, name: str, *, lines: int | None = None, follow: bool = False
    ) -> Iterator[admin_pb2.ReadPluginLogResponse]:
        """The last lines that a plugin logged, then those to come."""
        return self._stream(
            self._admin.ReadPluginLog,
            admin_pb2.ReadPluginLogRequest(name=name, lines=lines, follow=follow),
            None,
        )

    @abstractmethod
    def _read(self, rpc: Callable[..., Any], request: object, timeout_s: float) -> Any:
        """Send what may be sent again when the connection breaks."""

    @abstractmethod
    def _write(self, rpc: Callable[..., Any], request: object, timeout_s: float) -> Any:
        """Send what is sent again only when it certainly was not sent."""

    @abstractmethod
    def _stream(self, rpc: Callable[..., Any], request: object, timeout_s: float | None) -> Iterator[Any]:
        """Send what is answered by a stream."""
