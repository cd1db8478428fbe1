"""Render `docs/api.md` from the comments of the .proto files.

`python tools/render_api.py` writes it; a test compares. Every service, RPC, message and field appears. Needs
grpcio-tools.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
PAGE = ROOT / "docs" / "api.md"

HEAD = """# API reference

<!-- Written by tools/render_api.py from proto/hermesd/api/v1/*.proto. Edit the comments there. -->

gRPC package `hermesd.api.v1`, with `grpc.health.v1` and server reflection beside it. The daemon listens on a
unix socket, where a caller without a token is the operator; a token travels as metadata
`authorization: Bearer …` and a wrong one is refused, never ignored. Messages are at most 16 MiB.

Lists page: `page_size` (100 when absent, at most 1,000) and `page_token`, which stays good when what is
listed changes. Streams begin with `started`; watches carry `seq` and resume with `after_seq`. Times are
Timestamps, `…_json` fields JSON text. A field marked *optional* tells absent from 0.

A tool's failure is a result, with gRPC status OK. gRPC errors are about the request itself; each carries a
`google.rpc.ErrorInfo` with domain `hermesd`, a reason, and in its metadata the `remedy`:

| status | means |
|---|---|
| UNAUTHENTICATED | nobody can tell who calls, or the token is wrong |
| PERMISSION_DENIED | this caller may never do that |
| NOT_FOUND | it does not exist, or is not the caller's |
| INVALID_ARGUMENT | the request is malformed |
| FAILED_PRECONDITION | the object is in the wrong state |
| ABORTED | the caller lost a race: `if_revision` |
| ALREADY_EXISTS | a call with this `request_id` is in flight |
| OUT_OF_RANGE | a watch fell behind: read the present state, then watch again |
| RESOURCE_EXHAUSTED | a quota, a queue or the size of a message is exceeded |
| UNAVAILABLE | the daemon drains or stops |
| UNIMPLEMENTED | this build lacks the RPC, or the feature of a field that the message names |
| INTERNAL | the daemon failed; its log has the `request_id` that the message names |
"""

_TYPES = {
    FieldDescriptorProto.TYPE_DOUBLE: "double",
    FieldDescriptorProto.TYPE_INT64: "int64",
    FieldDescriptorProto.TYPE_INT32: "int32",
    FieldDescriptorProto.TYPE_BOOL: "bool",
    FieldDescriptorProto.TYPE_STRING: "string",
}
_SERVICE, _MESSAGE, _MEMBER = 6, 4, 2  # field numbers in descriptor.proto that make up a comment's path


def read() -> list[FileDescriptorProto]:
    """The API's files with their comments, tools first."""
    sources = sorted((PROTO / "hermesd").rglob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set.binpb"
        arguments = ["protoc", f"-I{PROTO}", f"-I{files('grpc_tools') / '_proto'}"]
        arguments += ["--include_source_info", f"--descriptor_set_out={out}"]
        status = protoc.main([*arguments, *(str(each) for each in sources)])
        if status:
            raise RuntimeError(f"protoc ended with status {status}")
        return sorted(
            FileDescriptorSet.FromString(out.read_bytes()).file, key=lambda each: each.name, reverse=True
        )


def render() -> str:
    """The whole page."""
    parts = [HEAD]
    described = read()
    for file in described:
        comments = _comments(file)
        for index, service in enumerate(file.service):
            parts.extend(_service(service, comments, (_SERVICE, index)))
    parts.append("## Messages\n")
    for file in described:
        comments = _comments(file)
        for index, message in enumerate(file.message_type):
            parts.extend(_message(message, comments, (_MESSAGE, index)))
    return "\n".join(parts)


def _comments(file: FileDescriptorProto) -> dict[tuple[int, ...], str]:
    return {
        tuple(each.path): " ".join(each.leading_comments.split())
        for each in file.source_code_info.location
        if each.leading_comments
    }


def _service(
    service: ServiceDescriptorProto, comments: dict[tuple[int, ...], str], path: tuple[int, ...]
) -> Iterator[str]:
    yield f"## {service.name}\n"
    if path in comments:
        yield f"{comments[path]}\n"
    for index, method in enumerate(service.method):
        stream = "stream of " if method.server_streaming else ""
        yield f"### {method.name}\n"
        yield f"{_link(method.input_type)} → {stream}{_link(method.output_type)}\n"
        if (text := comments.get((*path, _MEMBER, index))) is not None:
            yield f"{text}\n"


def _message(
    message: DescriptorProto, comments: dict[tuple[int, ...], str], path: tuple[int, ...]
) -> Iterator[str]:
    yield f"### {message.name}\n"
    if path in comments:
        yield f"{comments[path]}\n"
    if not message.field:
        yield "No fields.\n"
        return
    yield "| field | type | meaning |\n|---|---|---|"
    for index, field in enumerate(message.field):
        text = comments.get((*path, _MEMBER, index), "").replace("|", "\\|")
        yield f"| `{field.name}` = {field.number} | {_kind(field, message.nested_type)} | {text} |"
    yield ""


def _kind(field: FieldDescriptorProto, nested: Sequence[DescriptorProto]) -> str:
    entry = next((each for each in nested if field.type_name.endswith(f".{each.name}")), None)
    if entry is not None:
        return f"map of string to {_kind(entry.field[1], ())}"
    name = _TYPES[field.type] if field.type in _TYPES else _link(field.type_name)
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"list of {name}"
    if field.proto3_optional:
        return f"{name}, optional"
    return f"{name}, one of" if field.HasField("oneof_index") else name


def _link(full_name: str) -> str:
    name = full_name.rpartition(".")[2]
    return f"[{name}](#{name.lower()})" if full_name.startswith(".hermesd.") else name


def main() -> int:
    PAGE.write_text(render())
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
