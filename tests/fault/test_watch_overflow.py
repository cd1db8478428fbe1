"""The kernel drops file events; nothing is missed for longer than a rescan."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from hermesd.clock import SystemClock
from hermesd.reload.settle import ScanState, scan_state
from hermesd.reload.watch import Watcher
from hermesd.sources.folder import FolderSource

pytestmark = pytest.mark.fault

LIMIT = Path("/proc/sys/fs/inotify/max_queued_events")
RESCAN_S = 2.0


@pytest.mark.skipif(not os.access(LIMIT, os.W_OK), reason="needs root to shorten the kernel's event queue")
async def test_a_manifest_after_an_event_overflow_is_reported_within_a_rescan(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """samuelcolvin/watchfiles#348, gorakhargosh/watchdog#654: overflow is unhandled, or silent."""
    root = tmp_path / "plugins"
    (root / "_busy").mkdir(parents=True)
    source = FolderSource([root])

    def scan() -> ScanState:
        return scan_state(source.scan())

    watcher = Watcher(lambda: [root], scan, clock=SystemClock(), rescan_s=RESCAN_S)
    usual = LIMIT.read_text()
    LIMIT.write_text("256")  # an instance keeps the limit that it was made under
    try:
        await watcher.start(scan())
        await watcher.settle()
    finally:
        LIMIT.write_text(usual)

    def flood() -> None:
        for number in range(40_000):
            (root / "_busy" / str(number)).touch()
        (root / "orders").mkdir()
        (root / "orders" / "plugin.yaml").write_text("name: orders\n")

    try:
        await asyncio.to_thread(flood)
        begun = time.monotonic()
        async with asyncio.timeout(30):
            async for settled in watcher.changes():
                if str(root / "orders") in settled.changed:
                    break
        assert time.monotonic() - begun < RESCAN_S + 3
        assert any("overflow" in record.getMessage() for record in caplog.records)
        # And the watches still hear.
        (root / "orders" / "plugin.yaml").write_text("name: orders\nversion: 2\n")
        async with asyncio.timeout(RESCAN_S + 3):
            async for settled in watcher.changes():
                if str(root / "orders") in settled.changed:
                    break
    finally:
        await watcher.close()
