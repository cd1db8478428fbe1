"""Names of calls."""

from __future__ import annotations

import time
import uuid

from hermesd.rpc.request_id import new_request_id


def test_an_id_is_a_uuid_of_version_7_with_its_millisecond():
    before = time.time_ns() // 1_000_000
    parsed = uuid.UUID(new_request_id())
    after = time.time_ns() // 1_000_000
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert before <= parsed.int >> 80 <= after


def test_no_two_ids_are_alike():
    assert len({new_request_id() for _ in range(10_000)}) == 10_000
