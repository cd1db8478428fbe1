"""What the HTTP edge answers: /healthz and /readyz to anybody, /metrics on loopback, nothing else."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from typing import Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermesd.telemetry.exposition import CONTENT_TYPE

_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")


class Health(Protocol):
    """What this edge asks of the daemon."""

    def alive(self) -> bool: ...

    def readiness(self) -> tuple[bool, Mapping[str, object]]:
        """Whether calls are served, and the generation with what is not ready."""
        ...


class Exposition(Protocol):
    """What can be scraped."""

    async def scrape(self) -> bytes:
        """The whole exposition, as it is now."""
        ...


def application(health: Health, metrics: Exposition, metrics_open: Callable[[], str]) -> Starlette:
    """The routes. `metrics_open()`: "loopback" lets clients on this machine read metrics unidentified."""

    async def healthz(_: Request) -> Response:
        alive = health.alive()
        return JSONResponse({"alive": alive}, status_code=200 if alive else 503)

    async def readyz(_: Request) -> Response:
        ready, body = health.readiness()
        return JSONResponse({**body, "ready": ready}, status_code=200 if ready else 503)

    async def scrape(request: Request) -> Response:
        if metrics_open() != "loopback":
            return _unidentified("set telemetry.metrics_open: loopback to open them to this machine")
        if not is_local(request):
            return _unidentified("scrape from this machine, directly and by its loopback address")
        return Response(await metrics.scrape(), media_type=CONTENT_TYPE)

    async def anything_else(_: Request) -> Response:
        return _unidentified("only /healthz and /readyz are open")

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", scrape),
            Route(
                "/{path:path}", anything_else, methods=["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
            ),
        ]
    )


def is_local(request: Request) -> bool:
    """Whether the client itself is on this machine.

    A proxy on this machine speaks for somebody else, and a page in a local browser reaches loopback under
    a name of its own (DNS rebinding): neither counts.
    """
    if request.client is None or any(each in request.headers for each in _FORWARDED):
        return False
    return _is_loopback(request.client.host) and _is_loopback(request.url.hostname or "")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _unidentified(remedy: str) -> Response:
    body = {"error": "an identity is needed here", "remedy": remedy}
    return JSONResponse(body, status_code=401, headers={"www-authenticate": 'Bearer realm="hermesd"'})
