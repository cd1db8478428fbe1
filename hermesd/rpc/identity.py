"""Who stands at which door: from what a connection shows to a caller.

The operator's door takes whoever reaches it for the operator, unless a token comes along. The agents' door
takes nobody without a token or a certificate. A wrong token is refused at both, never ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hermesd.errors import UnauthenticatedError
from hermesd.model.call import Caller
from hermesd.rpc.ports import Identities

OPERATOR = Caller("operator", "operator")
Context = Any  # grpc.aio.ServicerContext, whose type parameters change with every RPC


class Doors:
    """`operator` and `agents` tell who makes an RPC that came through that door. UnauthenticatedError."""

    def __init__(self, identities: Identities) -> None:
        self._identities = identities

    def operator(self, context: Context) -> Caller:
        token = token_of(context)
        if token is not None:
            return self._identities.of_token(token)
        if not context.peer().startswith("unix:"):
            raise UnauthenticatedError("this address needs a token", remedy="use the operator's unix socket")
        return OPERATOR

    def agents(self, context: Context) -> Caller:
        token = token_of(context)
        shown = self._certified(context)
        if token is None:
            if shown is None:
                raise UnauthenticatedError(
                    "this address needs a token",
                    remedy="send metadata `authorization: Bearer TOKEN` (hermesd ctl: --token-file FILE)",
                )
            return shown
        caller = self._identities.of_token(token)
        if shown is not None and shown.name != caller.name:
            raise UnauthenticatedError(
                "the token and the certificate name two agents", remedy="use the certificate of this agent"
            )
        return caller

    def _certified(self, context: Context) -> Caller | None:
        for name in certificate_names(context.auth_context()):
            if (caller := self._identities.of_certificate(name)) is not None:
                return caller
        return None


def token_of(context: Context) -> str | None:
    """The token of the request's metadata, None without one. UnauthenticatedError for a strange one."""
    found: list[str] = [value for key, value in context.invocation_metadata() or () if key == "authorization"]
    if not found:
        return None
    scheme, _, token = found[0].partition(" ")
    if len(found) > 1 or scheme.lower() != "bearer":
        raise UnauthenticatedError(
            "the authorization is no bearer token", remedy="send metadata authorization: Bearer TOKEN, once"
        )
    return token.strip()


def certificate_names(shown: Mapping[str, Sequence[bytes]]) -> list[str]:
    """The names of a client certificate that the server has verified: its common name."""
    return [each.decode("utf-8", "replace") for each in shown.get("x509_common_name", ())]
