"""The API reference is that of the proto files."""

from __future__ import annotations

import sys
from pathlib import Path

from hermesd.api.v1 import admin_pb2, tool_pb2

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import render_api  # noqa: E402


def test_the_api_reference_is_not_stale():
    assert render_api.PAGE.read_text() == render_api.render(), "run tools/render_api.py"


def test_every_rpc_and_message_appears_in_the_api_reference():
    page = render_api.PAGE.read_text()
    for file in (tool_pb2.DESCRIPTOR, admin_pb2.DESCRIPTOR):
        for service in file.services_by_name.values():
            for method in service.methods:
                assert f"### {method.name}\n" in page
        for message in file.message_types_by_name:
            assert f"### {message}\n" in page


def test_every_service_and_most_rpcs_say_what_they_do():
    for file in render_api.read():
        comments = render_api._comments(file)
        for index in range(len(file.service)):
            assert (6, index) in comments
