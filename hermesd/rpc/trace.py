"""W3C trace context of a request: in the metadata of the RPC, or of the call itself."""

from __future__ import annotations

from collections.abc import Mapping

from hermesd.plugin.trace import given
from hermesd.rpc.interceptor import Context


def trace_context(context: Context, metadata: Mapping[str, str]) -> tuple[str, str]:
    """`traceparent` and `tracestate` as they may be passed on, or two empty texts.

    What an instrumented channel puts into the RPC's metadata counts more than what the call carries.
    """
    found: dict[str, str] = {}
    for key, value in context.invocation_metadata() or ():
        if key in ("traceparent", "tracestate") and isinstance(value, str):
            found.setdefault(key, value)
    if "traceparent" in found:
        return given(found["traceparent"], found.get("tracestate", ""))
    if metadata and "traceparent" in metadata:
        return given(metadata["traceparent"], metadata.get("tracestate", ""))
    return "", ""
