"""A connection that has to ask for something, or ends."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

#: For a request to arrive whole; probes and scrapers need milliseconds.
REQUEST_S = 10.0


class HttpConnection(H11Protocol):
    """Closed when no request has become complete for `REQUEST_S`.

    uvicorn waits for a first request without end: a handful of silent connections, which any user of the
    machine can open, would keep probes out, and the daemon would be restarted for it.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type] # uvicorn narrows the type
        self._seen: Any = None
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def _watch(self) -> None:
        self._timer = self.loop.call_later(REQUEST_S, self._look)

    def _look(self) -> None:
        cycle: Any = self.cycle  # None before the first request, whatever its annotation says
        answering = cycle is not None and not cycle.response_complete
        if not answering and cycle is self._seen:
            self.transport.close()
            return
        self._seen = cycle
        self._watch()
