"""What is asked for and what is granted."""

from __future__ import annotations

from hermesd.config.permission import NO_PERMISSIONS, Permissions, build_permissions, permission_faults


def test_what_is_granted_but_not_asked_for_is_not_given() -> None:
    asked = Permissions(
        network=("a:1", "b:1"), secrets=("S",), read=("/a",), calls=("text.*",), memory_mb=256
    )
    granted = Permissions(network=("b:1", "c:1"), secrets=("T",), write=("/a",), calls=("text.*",))
    assert asked.within(granted) == Permissions(network=("b:1",), calls=("text.*",), memory_mb=256)
    assert asked.within(NO_PERMISSIONS) == Permissions(memory_mb=256)
    assert NO_PERMISSIONS.within(granted) == NO_PERMISSIONS
    assert asked.within(Permissions(memory_mb=64)).memory_mb == 64


def test_permissions_keep_their_shape_through_json() -> None:
    permissions = Permissions(network=("a:1",), memory_mb=5)
    assert permissions.as_json() == {"network": ["a:1"], "memory_mb": 5}
    assert permission_faults(permissions.as_json()) == []
    assert build_permissions(permissions.as_json()) == permissions
    assert NO_PERMISSIONS.as_json() == {}


def test_a_null_list_grants_nothing() -> None:
    assert permission_faults({"network": None, "memory_mb": None}) == []
    assert build_permissions({"network": None, "memory_mb": None}) == NO_PERMISSIONS
