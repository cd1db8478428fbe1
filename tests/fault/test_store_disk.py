"""The data dir on a disk that is full, read-only, or whose writer is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermesd.clock import SystemClock
from hermesd.errors import StoreError
from hermesd.store.content import ContentStore
from hermesd.store.grants import GrantStore
from hermesd.store.layout import DataDir
from hermesd.store.served import ServedStore

pytestmark = pytest.mark.fault

DIGEST = "sha256:" + "a" * 64


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small file system")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    folder = tmp_path / "orders"
    folder.mkdir()
    (folder / "plugin.yaml").write_text("name: orders\n")
    (folder / "data.bin").write_bytes(os.urandom(300 * 1024))
    return folder


def fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 1024)


def test_a_full_disk_loses_nothing_and_names_the_remedy(small_disk: Path, plugin: Path) -> None:
    data = DataDir(small_disk)
    data.prepare()
    store = ContentStore(data.plugins)
    grants = GrantStore(data.grants, SystemClock())
    served = ServedStore(data.last_good, SystemClock())
    grants.trust("orders", DIGEST, by="operator")
    served.record([("orders", DIGEST, "1.0.0")])
    with pytest.raises(StoreError, match="No space left") as caught:
        store.add(plugin)
    assert "free space" in caught.value.remedy
    assert os.listdir(data.plugins) == ["last-good.json"]

    fill(small_disk / "ballast")
    with pytest.raises(StoreError, match="No space left"):
        grants.grant("orders", {"note": "x" * 8192}, by="operator")
    with pytest.raises(StoreError, match="No space left"):
        served.record([(f"plugin{number}", DIGEST, "1.0.0") for number in range(50)])
    assert GrantStore(data.grants, SystemClock()).current == grants.current
    assert ServedStore(data.last_good, SystemClock()).plugins() == served.plugins() == ("orders",)

    (small_disk / "ballast").unlink()
    grants.untrust("orders", by="operator")
    (plugin / "data.bin").unlink()
    assert store.verify(store.add(plugin).digest)


def test_a_read_only_disk_is_named(small_disk: Path, plugin: Path) -> None:
    data = DataDir(small_disk)
    data.prepare()
    grants = GrantStore(data.grants, SystemClock())
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(StoreError) as caught:
        grants.trust("orders", DIGEST, by="operator")
    assert "mount it writable" in caught.value.remedy
    with pytest.raises(StoreError, match="Read-only"):
        ContentStore(data.plugins).add(plugin)


WRITER = """
import itertools, sys
from pathlib import Path
from hermesd.clock import SystemClock
from hermesd.store.content import ContentStore
from hermesd.store.grants import GrantStore
root, source = Path(sys.argv[1]), Path(sys.argv[2])
contents, grants = ContentStore(root), GrantStore(root / "grants.json", SystemClock())
print("ready", flush=True)
for number in itertools.count():
    (source / "x.py").write_text(f"x = {number}")
    digest = contents.add(source).digest
    grants.trust("orders", digest, by="operator")
    print(digest, flush=True)
"""


def test_kill_minus_nine_at_any_instant_leaves_whole_contents_and_grants(tmp_path: Path) -> None:
    source, root = tmp_path / "orders", tmp_path / "plugins"
    source.mkdir()
    root.mkdir()
    for number in range(20):
        (source / f"{number}.py").write_text("y = 1\n" * 200)
    for round_ in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(root), str(source)],
            env={"PYTHONPATH": "."},
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            time.sleep(0.02 + 0.013 * round_)
            child.send_signal(signal.SIGKILL)
            said = child.stdout.read().splitlines()
        store = ContentStore(root)
        assert not [name for name in os.listdir(root) if name.startswith(".incoming-")]
        contents = [f"sha256:{name}" for name in os.listdir(root) if len(name) == 64]
        assert all(store.verify(each) for each in contents)
        acknowledged = [line for line in said if len(line) == len(DIGEST)]
        assert set(acknowledged) <= set(contents)
        trust = GrantStore(root / "grants.json", SystemClock()).current.plugin("orders").trust
        if acknowledged:
            assert trust is not None
            assert store.get(trust.digest) is not None
