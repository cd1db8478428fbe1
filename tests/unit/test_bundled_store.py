"""The store plugin: what was acknowledged is there, whole, until its time is over."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hermesd.plugin import ToolError
from tests.bundled import Bundled, bundled

PART = bundled("store")
ITEM, SHELF, CHECK = PART.part("item"), PART.part("shelf"), PART.part("check")
NOW = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)
ORDER = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


@pytest.fixture
def store(tmp_path: Path) -> Bundled:
    return bundled("store", dir=str(tmp_path / "items"))


def put(store: Bundled, value: Any, key: str = "k", **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = store.call("put_item", namespace="ns", key=key, value=value, **more)
    return answer


def test_a_value_comes_back_as_it_was_with_long_integers_and_key_order(store: Bundled) -> None:
    value = {"z": 2**63 + 1, "a": [1.5, None, True, "汉字\n\u2028😀"], "m": {"2": 1, "1": 2}, "": -(10**40)}
    stored = put(store, value, key="季度/报告 1")
    assert stored["created"]
    fetched = store.call("get_item", namespace="ns", key="季度/报告 1")
    assert json.dumps(fetched["value"]) == json.dumps(value)
    assert fetched["item"] == stored["item"]
    assert store.call("get_item", namespace="ns", key="季度/报告 1", pointer="/a/3")["value"] == value["a"][3]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(JSON)
def test_any_json_survives_the_store(value: Any) -> None:
    text = ITEM.as_text(value, 1 << 20)
    assert json.dumps(json.loads(text)) == json.dumps(value)


def test_a_version_guards_against_lost_changes(store: Bundled) -> None:
    first = put(store, 1, if_version=0)["item"]["version"]
    error = store.refused("put_item", namespace="ns", key="k", value=2, if_version=0)
    assert "exists already" in error.message
    assert (error.effect, error.detail["reason"]) == ("none", "version")
    second = put(store, 2, if_version=first)["item"]["version"]
    assert second > first
    assert (
        "has version" in store.refused("put_item", namespace="ns", key="k", value=3, if_version=first).message
    )
    assert "has version" in store.refused("delete_item", namespace="ns", key="k", if_version=first).message
    assert store.call("delete_item", namespace="ns", key="k", if_version=second) == {"deleted": True}
    assert store.call("delete_item", namespace="ns", key="k") == {"deleted": False}
    assert put(store, 4)["item"]["version"] > second  # a version never comes again


@pytest.mark.parametrize(
    "namespace", ["", "..", "../x", "a/b", "Ab", "名", "a" * 65, ".hidden", "a\n", "a\0"]
)
def test_a_namespace_is_a_plain_word(store: Bundled, namespace: str) -> None:
    assert store.refused("put_item", namespace=namespace, key="k", value=1).code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("key", ["", " a", "a\n", "a\0b", "汉" * 171, "\ud800", "\u2028"])
def test_a_key_that_cannot_be_shown_is_refused(store: Bundled, key: str) -> None:
    assert store.refused("get_item", namespace="ns", key=key).code == "INVALID_ARGUMENT"


def test_keys_never_become_paths(store: Bundled, tmp_path: Path) -> None:
    for key in ("../../evil", "/etc/passwd", "..", "a/../b"):
        put(store, key, key=key)
        assert store.call("get_item", namespace="ns", key=key)["value"] == key
    assert [path.name for path in tmp_path.rglob("*")] == ["items", "items.sqlite"]
    assert (tmp_path / "items").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "items" / "items.sqlite").stat().st_mode & 0o777 == 0o600


def test_pages_join_to_everything_in_order(store: Bundled) -> None:
    keys = [*sorted(f"k{i}" for i in range(25)), "季度1", "季度2"]
    for key in keys:
        put(store, 1, key=key)
    store.call("put_item", namespace="other", key="x", value=1)
    got, token = [], None
    while True:
        more = {"page_token": token} if token else {}
        page = store.call("list_items", namespace="ns", page_size=4, **more)
        got += [item["key"] for item in page["items"]]
        token = page["next_page_token"]
        if token is None:
            break
    assert got == keys
    assert [item["key"] for item in store.call("list_items", namespace="ns", prefix="季度")["items"]] == keys[
        -2:
    ]
    assert [item["key"] for item in store.call("list_items", prefix="x")["items"]] == ["x"]
    assert len(store.call("list_items")["items"]) == 28
    assert store.refused("list_items", page_token="%%").code == "INVALID_ARGUMENT"
    assert store.refused("list_items", page_size=0).code == "INVALID_ARGUMENT"


def test_items_expire_and_give_their_room_back(tmp_path: Path) -> None:
    shelf, limits = SHELF.Shelf(tmp_path), ITEM.Limits.of({"max_items": 1})
    item = SHELF.Put("ns", "k", "1", None, 60, None)
    shelf.put(item, limits, NOW)
    assert shelf.get("ns", "k", NOW + timedelta(seconds=59)) is not None
    later = NOW + timedelta(seconds=60)
    assert shelf.get("ns", "k", later) is None
    assert shelf.page("ns", "", None, 10, later) == []
    with pytest.raises(ITEM.StoreFault, match="full"):
        shelf.put(SHELF.Put("ns", "other", "1", None, 60, 0), limits, NOW)
    assert shelf.put(SHELF.Put("ns", "other", "1", None, 60, 0), limits, later)[1]
    assert shelf.put(SHELF.Put("ns", "other", "2", None, 60, None), limits, later)[1] is False


def test_a_full_store_refuses_and_drops_nothing(tmp_path: Path) -> None:
    store = bundled("store", dir=str(tmp_path), max_total_bytes=100, max_item_bytes=60)
    put(store, "x" * 50)
    error = store.refused("put_item", namespace="ns", key="b", value="y" * 50)
    assert (error.detail["reason"], error.retryable, error.effect) == ("full", True, "none")
    assert "60" in store.refused("put_item", namespace="ns", key="b", value="y" * 70).message
    assert store.call("get_item", namespace="ns", key="k")["value"] == "x" * 50
    put(store, "z")  # a smaller value for a key that exists always fits


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("value", [deep(70), "\ud800", {"\udfff": 1}], ids=["deep", "surrogate", "key"])
def test_a_value_that_is_no_sound_json_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ITEM.StoreFault) as refused:
        ITEM.as_text(value, 1 << 20)
    assert refused.value.code == "INVALID_ARGUMENT"


def test_a_named_schema_holds_and_every_fault_is_told(tmp_path: Path) -> None:
    store = bundled(
        "store",
        dir=str(tmp_path),
        schemas={"order": ORDER, "any": True},
        namespace_schemas={"orders": "order"},
    )
    store.module.hermesd_startup(store.context("store.put_item"))
    error = store.refused("put_item", namespace="ns", key="k", value={"id": "x"}, schema="order")
    assert error.code == "INVALID_ARGUMENT"
    assert error.detail["faults"][0]["path"] == "/value/id"
    assert (
        store.call("put_item", namespace="orders", key="k", value={"id": 2**60})["item"]["schema"] == "order"
    )
    assert store.refused("put_item", namespace="orders", key="k", value=3).detail["reason"] == "schema"
    assert "must fit" in store.refused("put_item", namespace="orders", key="k", value=3, schema="any").message
    assert (
        "known: any, order" in store.refused("put_item", namespace="ns", key="k", value=3, schema="x").message
    )


@pytest.mark.parametrize(
    ("schemas", "bindings"),
    [
        ({"a": {"type": "nonsense"}}, {}),
        ({"a": {"$ref": "https://example.com/x"}}, {}),
        ({"a": {"pattern": "("}}, {}),
        ({}, {"ns": "absent"}),
        ({"a": {"description": "x" * 70_000}}, {}),
    ],
)
def test_a_schema_that_is_none_is_refused_at_the_start(
    schemas: dict[str, object], bindings: dict[str, str]
) -> None:
    with pytest.raises(CHECK.SchemaFault, match="schemas"):
        CHECK.compile_all(schemas, bindings)


def test_a_missing_item_and_a_missing_part_are_told_apart(store: Bundled) -> None:
    assert store.refused("get_item", namespace="ns", key="k").detail["reason"] == "absent"
    put(store, {"a/b": [1]})
    assert store.call("get_item", namespace="ns", key="k", pointer="/a~1b/0")["value"] == 1
    for pointer in ("/x", "/a~1b/1", "/a~1b/-", "a", "/a~1b/0/0"):
        assert (
            store.refused("get_item", namespace="ns", key="k", pointer=pointer).detail["reason"] == "pointer"
        )


def test_asking_and_checking_make_no_file(store: Bundled, tmp_path: Path) -> None:
    assert store.module.hermesd_unavailable(store.context("store.get_item")) is None
    assert store.call("list_items") == {"items": [], "next_page_token": None}
    assert store.call("delete_item", namespace="ns", key="k") == {"deleted": False}
    assert not (tmp_path / "items").exists()


def test_without_a_folder_the_store_is_unavailable_and_says_what_to_set() -> None:
    store = bundled("store")
    assert "plugins.settings.store.dir" in store.module.hermesd_unavailable(object.__new__(Bare))[1]
    assert store.refused("list_items").code == "UNAVAILABLE"


class Bare:
    """What the hook needs of a context."""

    settings: dict[str, object] = {}  # noqa: RUF012 - read only


def test_the_plugins_own_state_folder_is_used_when_none_is_set(tmp_path: Path) -> None:
    context = Bare()
    context.state_dir = tmp_path  # type: ignore[attr-defined]
    tools = PART.module
    assert tools._shelf(context, ITEM.Limits.of({})).folder == tmp_path


def test_a_damaged_file_and_a_newer_one_are_named_and_left_alone(store: Bundled, tmp_path: Path) -> None:
    put(store, 1)
    file = tmp_path / "items" / "items.sqlite"
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    error = store.refused("get_item", namespace="ns", key="k")
    assert (error.code, error.detail["reason"]) == ("UNAVAILABLE", "format")
    file.write_bytes(b"garbage" * 1000)
    error = store.refused("put_item", namespace="ns", key="k", value=1)
    assert (error.code, error.detail["reason"]) == ("UNAVAILABLE", "damaged")
    assert file.read_bytes() == b"garbage" * 1000
    assert "damaged" in store.module.hermesd_unavailable(store.context("store.get_item"))[0]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = bundled("store", dir=str(tmp_path / "file" / "below"))
    assert store.refused("put_item", namespace="ns", key="k", value=1).code == "UNAVAILABLE"
    assert store.module.hermesd_unavailable(store.context("store.put_item")) is not None


def test_a_writer_that_holds_the_file_makes_others_wait_and_then_say_busy(tmp_path: Path) -> None:
    shelf, limits = SHELF.Shelf(tmp_path, busy_s=0.05), ITEM.Limits.of({})
    shelf.put(SHELF.Put("ns", "k", "1", None, 60, None), limits, NOW)
    holder = sqlite3.connect(tmp_path / SHELF.FILE, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(ITEM.StoreFault) as refused:
            shelf.put(SHELF.Put("ns", "k", "2", None, 60, None), limits, NOW)
    finally:
        holder.close()
    assert (refused.value.reason, refused.value.retryable) == ("busy", True)


def test_concurrent_writers_lose_no_change(store: Bundled) -> None:
    put(store, 0)

    def add() -> None:
        for _ in range(10):
            while True:
                found = store.call("get_item", namespace="ns", key="k")
                try:
                    put(store, found["value"] + 1, if_version=found["item"]["version"])
                    break
                except ToolError as error:
                    if error.detail["reason"] not in ("version", "busy"):
                        raise

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.call("get_item", namespace="ns", key="k")["value"] == 40


class StoreMachine(RuleBasedStateMachine):
    """A dictionary is the oracle for every history of puts, deletes and passing time."""

    keys = st.sampled_from(["a", "b", "b/1", "汉"])
    spaces = st.sampled_from(["x", "y"])

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.limits = ITEM.Limits.of({"max_items": 5, "max_total_bytes": 60})
        self.now = NOW
        self.model: dict[tuple[str, str], tuple[str, int, datetime]] = {}
        self.last = 0

    @property
    def shelf(self) -> Any:
        return SHELF.Shelf(Path(self.folder.name))

    @rule(
        space=spaces,
        key=keys,
        text=st.sampled_from(["1", '"' + "x" * 20 + '"', "[]"]),
        ttl=st.integers(1, 5),
        guess=st.sampled_from([None, 0, "right", 10**6]),
    )
    def put(self, space: str, key: str, text: str, ttl: int, guess: Any) -> None:
        old = self.model.get((space, key))
        version = old[1] if old and guess == "right" else (0 if guess == "right" else guess)
        others = [each[0] for name, each in self.model.items() if name != (space, key)]
        grows = len(text) - (len(old[0]) if old else 0)
        fits = (old or len(others) + 1 <= 5) and (grows <= 0 or sum(map(len, others)) + len(text) <= 60)
        if version not in (None, old[1] if old else 0) or not fits:
            with pytest.raises(ITEM.StoreFault):
                self.shelf.put(SHELF.Put(space, key, text, None, ttl, version), self.limits, self.now)
            return
        info, created = self.shelf.put(SHELF.Put(space, key, text, None, ttl, version), self.limits, self.now)
        assert created == (old is None)
        assert info.version > self.last
        self.last = info.version
        self.model[space, key] = (text, info.version, self.now + timedelta(seconds=ttl))

    @rule(space=spaces, key=keys)
    def delete(self, space: str, key: str) -> None:
        assert self.shelf.delete(space, key, None, self.now) == (
            self.model.pop((space, key), None) is not None
        )

    @rule(seconds=st.integers(1, 3))
    def wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        self.model = {name: each for name, each in self.model.items() if each[2] > self.now}

    @invariant()
    def the_store_is_the_model(self) -> None:
        found = self.shelf.page(None, "", None, 100, self.now)
        assert [(each.namespace, each.key) for each in found] == sorted(self.model)
        for each in found:
            assert (
                self.shelf.get(each.namespace, each.key, self.now)[1]
                == self.model[each.namespace, each.key][0]
            )

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestStoreMachine = StoreMachine.TestCase
StoreMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)

WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.bundled import bundled
store = bundled("store", dir=sys.argv[2])
for number in range(100_000):
    store.call("put_item", namespace="ns", key=f"k{number}", value=[number] * 2000)
    print(number, flush=True)
"""


@pytest.mark.fault
def test_kill_nine_loses_no_acknowledged_item(tmp_path: Path) -> None:
    """I10: whatever was answered is there after a kill at any instant, and nothing is there by half."""
    here = str(Path(__file__).resolve().parents[2])
    for acknowledged in (1, 7, 20):
        folder = tmp_path / str(acknowledged)
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, here, str(folder)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            last = [int(writer.stdout.readline()) for _ in range(acknowledged)][-1]
            os.kill(writer.pid, signal.SIGKILL)
            last = max([last, *(int(line) for line in writer.stdout.read().split())])
        store = bundled("store", dir=str(folder))
        for number in range(last + 1):
            assert store.call("get_item", namespace="ns", key=f"k{number}")["value"] == [number] * 2000
        held = len(store.call("list_items", page_size=1000)["items"])
        assert held in (last + 1, last + 2)
        put(store, "usable")


@pytest.mark.fault
def test_a_full_disk_refuses_the_put_and_keeps_what_was_there(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        store = bundled("store", dir=str(disk))
        put(store, "x" * 1000)
        error = store.refused("put_item", namespace="ns", key="big", value="y" * 400_000)
        assert (error.detail["reason"], error.effect) == ("disk", "none")
        assert store.call("get_item", namespace="ns", key="k")["value"] == "x" * 1000
        put(store, "z")
    finally:
        subprocess.run(["umount", disk], check=True)
