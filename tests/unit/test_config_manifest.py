"""A plugin's manifest: every fault at its place, so that its author mends all of them at once."""

from __future__ import annotations

import pytest

from hermesd.config.manifest import Manifest, python_manifest, read_manifest
from hermesd.config.permission import Permissions
from hermesd.errors import PluginError, Rejection

GOOD = "name: orders\nversion: 1.2.0\nentry: orders.py\n"


def refusals(text: str, file: str = "/p/orders/plugin.yaml") -> list[Rejection]:
    with pytest.raises(PluginError) as caught:
        read_manifest(text.encode(), file)
    for rejection in caught.value.rejections:
        assert rejection.remedy
        assert rejection.file == file
    return list(caught.value.rejections)


def test_a_whole_manifest_arrives_typed() -> None:
    manifest = read_manifest(
        """
name: orders
version: 1.2.0-rc.1
requires_hermesd: ">=0.1,<1"
api: 1
entry: src/订单.py
requirements: ["python-dateutil>=2.9"]
settings: {type: object, properties: {region: {type: string}}}
permissions:
  network: ["api.example.com:443", "*:*", "[::1]:80"]
  secrets: [ORDERS_TOKEN]
  read: [/data]
  write: []
  calls: ["text.*"]
  memory_mb: 256
tools: [{name: orders.query_status, description: d}]
exclusive: ["tcp:8080"]
""".encode(),
        "plugin.yaml",
    )
    assert manifest == Manifest(
        name="orders",
        version="1.2.0-rc.1",
        requires_hermesd=">=0.1,<1",
        entry="src/订单.py",
        requirements=("python-dateutil>=2.9",),
        settings={"type": "object", "properties": {"region": {"type": "string"}}},
        permissions=Permissions(
            ("api.example.com:443", "*:*", "[::1]:80"), ("ORDERS_TOKEN",), ("/data",), (), ("text.*",), 256
        ),
        tools=({"name": "orders.query_status", "description": "d"},),
        exclusive=("tcp:8080",),
    )


def test_the_least_that_a_manifest_needs() -> None:
    manifest = read_manifest(GOOD.encode(), "plugin.yaml")
    assert manifest == Manifest(name="orders", version="1.2.0", entry="orders.py")
    assert manifest.permissions == Permissions()
    only_tools = read_manifest(b"name: a\nversion: 1.0.0\ntools: [{name: a.b}]\n", "a.yaml")
    assert only_tools.entry == ""


def test_a_manifest_may_be_json() -> None:
    text = b'{"name": "orders", "version": "1.2.0", "entry": "orders.py"}'
    assert read_manifest(text, "plugin.json").name == "orders"


def test_nothing_is_interpolated_in_a_manifest() -> None:
    manifest = read_manifest((GOOD + "settings: {default: '${HOME}'}\n").encode(), "plugin.yaml")
    assert manifest.settings == {"default": "${HOME}"}


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ("", 1, 1, "the manifest is empty"),
        ("# to come\n", 1, 1, "the manifest is empty"),
        ("- a\n", 1, 1, "a manifest is a mapping of keys, not a list"),
        ("orders", 1, 1, "a manifest is a mapping of keys, not a text"),
        ("version: 1.2.0\nentry: a.py\n", 1, 1, "name is required"),
        ("name: a\nentry: a.py\n", 1, 1, "version is required"),
        ("name: a\nversion:\nentry: a.py\n", 2, 1, "version: version is required"),
        ("name: a\nversion: 1.0.0\n", 1, 1, "one of entry and tools is required"),
        ("name: a\nversion: 1.0.0\ntools: []\n", 1, 1, "one of entry and tools is required"),
        ("name: Orders\nversion: 1.0.0\nentry: a.py\n", 1, 1, "'Orders' is no plugin name"),
        ("name: memory\nversion: 1.0.0\nentry: a.py\n", 1, 1, "the daemon's own"),
        ("name: 7\nversion: 1.0.0\nentry: a.py\n", 1, 1, "name: expected a text, got the number 7"),
        ("name: a\nversion: 1.10\nentry: a.py\n", 2, 1, "expected a text such as 1.2.0, got the number"),
        ("name: a\nversion: v1\nentry: a.py\n", 2, 1, "'v1' is no semantic version"),
        ("name: a\nversion: '1.2'\nentry: a.py\n", 2, 1, "'1.2' is no semantic version"),
        (GOOD + "nmae: x\n", 4, 1, "nmae: is no key of a manifest"),
        (GOOD + "requires_hermesd: '>=99'\n", 4, 1, "asks for hermesd >=99; this is "),
        (GOOD + "requires_hermesd: newest\n", 4, 1, "'newest' is no version specifier"),
        (GOOD + "requires_hermesd: 0.1\n", 4, 1, "expected a text such as '>=0.1', got the number 0.1"),
        (GOOD + "api: 2\n", 4, 1, "the plugin is written for api 2; this build speaks api 1"),
        (GOOD + "api: '1'\n", 4, 1, "api: expected the number 1, got a text"),
        (GOOD + "api: true\n", 4, 1, "api: expected the number 1, got true"),
        ("name: a\nversion: 1.0.0\nentry: ../a.py\n", 3, 1, "leads out of the plugin's folder"),
        ("name: a\nversion: 1.0.0\nentry: /a.py\n", 3, 1, "leads out of the plugin's folder"),
        ("name: a\nversion: 1.0.0\nentry: 'b\\a.py'\n", 3, 1, "leads out of the plugin's folder"),
        ('name: a\nversion: 1.0.0\nentry: "a\\0.py"\n', 3, 1, "leads out of the plugin's folder"),
        ("name: a\nversion: 1.0.0\nentry: a.sh\n", 3, 1, "'a.sh' is no Python file"),
        ("name: a\nversion: 1.0.0\nentry: [a.py]\n", 3, 1, "expected a text such as orders.py, got a list"),
        (GOOD + "requirements: ['not a requirement']\n", 4, 16, "is no requirement"),
        (GOOD + "requirements: ['a @ https://host/a.whl']\n", 4, 16, "an address is no requirement"),
        (GOOD + "requirements: a\n", 4, 1, "requirements: expected a list, got a text"),
        (GOOD + "settings: [1]\n", 4, 1, "settings: expected a JSON schema, got a list"),
        (GOOD + "settings: {type: nothing}\n", 4, 12, "settings.type: is no JSON schema"),
        (GOOD + "settings: {$ref: 'https://host/x'}\n", 4, 1, "only references into itself"),
        (GOOD + "permissions: [x]\n", 4, 1, "permissions: expected a mapping"),
        (GOOD + "permissions: {netwrok: []}\n", 4, 15, "permissions.netwrok: unknown key 'netwrok'"),
        (GOOD + "permissions: {network: [host]}\n", 4, 25, "'host' is no HOST:PORT"),
        (GOOD + "permissions: {network: ['host:0']}\n", 4, 25, "'host:0' is no HOST:PORT"),
        (GOOD + "permissions: {network: host:1}\n", 4, 15, "permissions.network: expected a list"),
        (GOOD + "permissions: {secrets: [a-b]}\n", 4, 25, "'a-b' is no name of a secret"),
        (GOOD + "permissions: {read: [data]}\n", 4, 22, "'data' is no absolute path"),
        (GOOD + "permissions: {write: [/data/../etc]}\n", 4, 23, "is no absolute path without '..'"),
        (GOOD + "permissions: {calls: ['a b']}\n", 4, 23, "'a b' is no glob of tool names"),
        (GOOD + "permissions: {calls: [3]}\n", 4, 23, "expected text"),
        (GOOD + "permissions: {memory_mb: 0}\n", 4, 15, "a whole number of MiB"),
        (GOOD + "permissions: {memory_mb: true}\n", 4, 15, "a whole number of MiB"),
        (GOOD + "tools: {a: 1}\n", 4, 1, "tools: expected a list of definitions, got a mapping"),
        (GOOD + "tools: [a]\n", 4, 9, "expected a mapping with a name, got a text"),
        (GOOD + "tools: [{title: a}]\n", 4, 9, "tools[0].name: expected a text such as"),
        (GOOD + "tools: [{name: a.b}, {name: a.b}]\n", 4, 22, "the tool 'a.b' stands here twice"),
        (GOOD + "exclusive: tcp:80\n", 4, 1, "exclusive: expected a list, got a text"),
        (GOOD + "exclusive: ['a b']\n", 4, 13, "'a b' is no name of a resource"),
        (GOOD + "name: twice\n", 4, 1, "the key 'name' stands here twice, first on line 1"),
        (GOOD + "\tapi: 1\n", 4, 1, "a tab is used for indentation"),
    ],
)  # fmt: skip
def test_a_fault_of_a_manifest_stands_at_its_place(text: str, line: int, column: int, reason: str) -> None:
    """basic-memory#1339: two places that knew different versions of one manifest."""
    (rejection,) = refusals(text)
    assert reason in rejection.reason
    assert (rejection.line, rejection.column) == (line, column)


@pytest.mark.promise("CFG-3")
def test_all_faults_of_a_manifest_are_listed_in_one_answer() -> None:
    found = refusals(
        "name: Orders\nversion: 1.10\napi: 3\nentry: x.txt\nnmae: 1\npermissions: {foo: 1, bar: 2}\n"
    )
    assert [each.line for each in found] == [1, 2, 3, 4, 5, 6, 6]


def test_a_manifest_of_nothing_but_faults_is_answered_in_bounded_length() -> None:
    assert len(refusals("\n".join(f"key_{index}: 1" for index in range(20_000)))) <= 52
    assert len(refusals(GOOD + "exclusive: [" + "'a b', " * 900 + "]\n")) <= 52
    (many,) = refusals(GOOD + "exclusive: [" + "a, " * 2000 + "]\n")
    assert "more than 1000 entries" in many.reason


def test_a_rejection_is_filed_under_the_plugin_as_far_as_it_is_known() -> None:
    assert refusals("a: [")[0].name == "orders"
    assert refusals("a: [", "/plugins/weather.yaml")[0].name == "weather"
    assert refusals(GOOD + "api: 3\n", "/p/another/plugin.yaml")[0].name == "orders"
    assert refusals("name: [\n", "plugin.yaml")[0].name == "plugin"


@pytest.mark.parametrize(
    ("source", "version"),
    [
        ("x = 1\n", "0.0.0"),
        ('"""Doc."""\n__version__ = "1.2.3"\n', "1.2.3"),
        ("__version__: str = '2.0.0'\n", "2.0.0"),
        ("__version__: Final[str] = '2.0.1'\n", "2.0.1"),
        ("    __version__ = '9.9.9'\n", "0.0.0"),
        ("__version__ = compute()\n", "0.0.0"),
        ("def broken(:\n", "0.0.0"),
        ("\0\udcff", "0.0.0"),
    ],
)
def test_a_single_file_is_named_by_its_stem_and_versioned_by_its_literal(source: str, version: str) -> None:
    manifest = python_manifest("/plugins/weather.py", source.encode("utf-8", "surrogateescape"))
    assert manifest == Manifest(name="weather", version=version, entry="weather.py")


def test_a_single_file_with_a_bad_name_or_version_is_refused_with_its_place() -> None:
    with pytest.raises(PluginError) as caught:
        python_manifest("/plugins/My Tool.py", b'# x\n__version__ = "1.2"\n')
    name, version = caught.value.rejections
    assert "is no plugin name" in name.reason
    assert "'1.2' is no semantic version" in version.reason
    assert version.place == "/plugins/My Tool.py:2:1"


def test_no_two_plugins_can_differ_by_letter_case_alone() -> None:
    """circus#823: a name's letter case broke the diff of a reload."""
    for name in ("Orders", "ORDERS", "oRders"):
        assert "is no plugin name" in refusals(f"name: {name}\nversion: 1.0.0\nentry: a.py\n")[0].reason


@pytest.mark.promise("CFG-11")
@pytest.mark.parametrize("text", ["", "\x00", GOOD[:20], GOOD + "a: [", "null"])
def test_what_cannot_be_read_is_an_error_and_never_an_empty_manifest(text: str) -> None:
    """FRR#10453, FRR#10187: a failure to parse was taken for an empty configuration and wiped what ran."""
    assert refusals(text)
