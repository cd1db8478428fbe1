"""The committed API: never stale, never broken, and named as the contract says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet

from hermesd.api.v1 import admin_pb2, tool_pb2
from tools import generate_proto

ROOT = Path(__file__).resolve().parents[2]


def test_the_generated_code_is_that_of_the_proto_files(tmp_path: Path):
    written = generate_proto.generate(tmp_path)
    assert len(written) == 3 * len(generate_proto.sources())
    for path in written:
        committed = ROOT / path.relative_to(tmp_path)
        assert committed.read_text() == path.read_text(), f"{committed} is stale: run tools/generate_proto.py"


def test_the_declared_dependencies_are_new_enough_for_the_generated_code():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bounds = dict(
        re.match(r"([\w-]+)>=([\d.]+)", each).groups() for each in project["dependencies"] if ">=" in each
    )
    code = (ROOT / "hermesd/api/v1/tool_pb2.py").read_text()
    runtime = re.search(r"PUBLIC,\s+(\d+),\s+(\d+),\s+(\d+)", code)
    stub = re.search(
        r"GRPC_GENERATED_VERSION = '([\d.]+)'", (ROOT / "hermesd/api/v1/tool_pb2_grpc.py").read_text()
    )
    assert runtime is not None
    assert stub is not None
    assert _version(bounds["protobuf"]) >= tuple(int(each) for each in runtime.groups())
    assert _version(bounds["grpcio"]) >= _version(stub[1])


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split("."))


@pytest.mark.promise("API-13")
def test_what_was_published_is_still_there_with_its_number_and_type():
    """What `buf breaking` checks, for machines without buf."""
    baseline = FileDescriptorSet.FromString((ROOT / "proto" / "baseline.binpb").read_bytes())
    now = {each.name: _described(each) for each in (tool_pb2.DESCRIPTOR, admin_pb2.DESCRIPTOR)}
    published = [each for each in baseline.file if each.package == "hermesd.api.v1"]
    assert len(published) == 2
    for file in published:
        missing = _facts(file) - _facts(now[file.name])
        assert missing == set()


def _described(descriptor) -> FileDescriptorProto:
    proto = FileDescriptorProto()
    descriptor.CopyToProto(proto)
    return proto


def _facts(file: FileDescriptorProto) -> set[tuple[object, ...]]:
    facts: set[tuple[object, ...]] = set()
    for message in file.message_type:
        facts |= _message_facts("", message)
    for service in file.service:
        for method in service.method:
            streaming = (method.client_streaming, method.server_streaming)
            facts.add((service.name, method.name, method.input_type, method.output_type, streaming))
    return facts


def _message_facts(prefix: str, message: DescriptorProto) -> set[tuple[object, ...]]:
    name = f"{prefix}{message.name}"
    facts: set[tuple[object, ...]] = {(name,)}
    for field in message.field:
        kind = (field.type, field.label, field.type_name, field.proto3_optional)
        facts.add((name, field.name, field.number, kind))
    for nested in message.nested_type:
        facts |= _message_facts(f"{name}.", nested)
    return facts


FIELDS = {
    tool_pb2.CallToolRequest: "name arguments_json session_id request_id timeout_ms idempotency_key "
    "confirmation_token detach tool_call_id append context_id metadata",
    tool_pb2.Result: "status code message data_json truncated request_id session_id tool version generation "
    "attempts duration_ms queued_ms retryable effect detail_json",
    tool_pb2.CallToolResponse: "result",
    tool_pb2.StreamCallToolRequest: "call",
    tool_pb2.StreamCallToolResponse: "started progress log result",
    tool_pb2.ListToolsRequest: "page_size page_token include_unavailable source domain session_id",
    tool_pb2.ListToolsResponse: "tools next_page_token generation",
    tool_pb2.Tool: "name version description parameters_json state reason since source plugin",
    admin_pb2.ReloadRequest: "name dry_run atomic no_wait if_revision",
    admin_pb2.ReloadResponse: "revision generation added changed removed kept pending rejected duration_ms",
    admin_pb2.Rejection: "name file line column reason remedy",
}


@pytest.mark.parametrize("message", FIELDS, ids=lambda each: each.DESCRIPTOR.name)
def test_fields_that_scripts_rely_on_have_their_names(message):
    assert set(FIELDS[message].split()) <= set(message.DESCRIPTOR.fields_by_name)


def test_kinds_of_fields_follow_the_rules_of_the_api():
    """Sequence numbers are int64; times are Timestamps; nothing is an enum or bytes."""
    for file in (tool_pb2.DESCRIPTOR, admin_pb2.DESCRIPTOR):
        assert not file.enum_types_by_name
        for message in file.message_types_by_name.values():
            for field in message.fields:
                assert field.type not in (field.TYPE_BYTES, field.TYPE_ENUM), field.full_name
                if field.name == "seq" or field.name.endswith("_seq"):
                    assert field.type == field.TYPE_INT64, field.full_name
                if field.full_name == "hermesd.api.v1.ToolDeprecation.since":
                    continue  # what an author wrote: a version, or a day
                if field.name in ("at", "since") or field.name.endswith("_at"):
                    assert field.message_type.full_name == "google.protobuf.Timestamp", field.full_name
