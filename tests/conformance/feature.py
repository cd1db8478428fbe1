"""What this build has. A promise about a feature is held from the build on that brings it."""

from __future__ import annotations

import pytest

from hermesd.api.v1 import admin_pb2
from hermesd.model import definition
from hermesd.rpc import tool_service


def _has(name: str) -> bool:
    if name == "records":
        return "ListCalls" in admin_pb2.DESCRIPTOR.services_by_name["AdminService"].methods_by_name
    deferred = getattr(definition, "DEFERRED_FIELDS", frozenset())
    return name not in deferred and name not in getattr(tool_service, "UNSUPPORTED", ())


def requires(name: str) -> pytest.MarkDecorator:
    """`name`: a field of a definition or of a call, or records."""
    return pytest.mark.skipif(not _has(name), reason=f"this build does not have {name}")
