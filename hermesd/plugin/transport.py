"""Whether what a tool raised says that a service behind it could not be reached.

The daemon attempts such calls again where that can do no harm, and stops calling for a while what cannot be
reached. It learns of it from `detail`: `reason` is "connection" or "timeout", `status` the HTTP status and
`retry_after_ms` how long the service asked to be left alone. Clients of every kind are understood by what
their exceptions have in common; none of them is imported.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

#: How far an exception is followed to what caused it.
MAX_CHAIN = 8
_UNREACHABLE = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN})
#: A resolver's failure; naming the class here spares the import of socket.
_NO_NAME = "gaierror"
_MAX_WAIT_S = 86_400


def transport_detail(error: BaseException) -> dict[str, Any]:
    """What `error`, or what it was raised from, says of the way to the service; {} when it says nothing.

    Never raises, whatever the attributes of a foreign exception do.
    """
    try:
        for each in _chain(error):
            if found := _said_by(each):
                return found
    except Exception:  # noqa: BLE001 - the properties of an exception are the plugin's code too
        return {}
    return {}


def _chain(error: BaseException) -> Iterator[BaseException]:
    """`error`, then what it was raised from or wraps."""
    for _ in range(MAX_CHAIN):
        yield error
        inner = error.__cause__ or getattr(error, "reason", None)  # urllib wraps in `reason`
        if not isinstance(inner, BaseException):
            return
        error = inner


def _said_by(error: BaseException) -> dict[str, Any]:
    if isinstance(error, TimeoutError):
        return {"reason": "timeout"}
    if isinstance(error, ConnectionError) or type(error).__name__ == _NO_NAME:
        return {"reason": "connection"}
    if isinstance(error, OSError) and error.errno in _UNREACHABLE:
        return {"reason": "connection"}
    response = getattr(error, "response", None)  # httpx, requests
    status = getattr(response, "status_code", None)
    headers = getattr(response, "headers", None)
    if status is None:
        headers = getattr(error, "headers", None)  # urllib
        status = getattr(error, "code", None) if headers is not None else None
    if not isinstance(status, int):
        return {}
    waits = _retry_after_ms(headers)
    return {"status": status} if waits is None else {"status": status, "retry_after_ms": waits}


def _retry_after_ms(headers: Any) -> int | None:
    """The header as milliseconds from now, a day at most; None when there is none that can be read."""
    text = headers.get("Retry-After") if headers is not None else None
    if not isinstance(text, str):
        return None
    text = text.strip()
    seconds = float(text) if text.isascii() and text.isdigit() else _until(text)
    return None if seconds is None else int(min(max(0.0, seconds), _MAX_WAIT_S) * 1000)


def _until(text: str) -> float | None:
    """Seconds until an HTTP date; None for what is none."""
    import time  # noqa: PLC0415 - a date is rare
    from email.utils import parsedate_to_datetime  # noqa: PLC0415

    try:
        return parsedate_to_datetime(text).timestamp() - time.time()
    except ValueError:
        return None
