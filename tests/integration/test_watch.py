"""The watcher on a real file system with real file events.

Each test writes the way some tool really does, and counts what the watcher makes of it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from watchdog.observers.api import BaseObserver
from watchdog.observers.inotify import InotifyObserver

from hermesd.clock import SystemClock
from hermesd.errors import DrainingError
from hermesd.reload.settle import ScanState, scan_state
from hermesd.reload.watch import Settled, Watcher
from hermesd.sources.fingerprint import file_fingerprint
from hermesd.sources.folder import FolderSource

QUIET_S = 0.4


class Reloads:
    """What a daemon would have seen: the reports, and the text of every manifest at each of them."""

    def __init__(self, watcher: Watcher, root: Path, scans: Callable[[], int]) -> None:
        self.watcher, self.root, self.scans = watcher, root, scans
        self.reports = list[Settled]()
        self.seen = list[dict[str, str]]()
        self.rescans = 0

    async def collect(self) -> None:
        async for settled in self.watcher.changes():
            self.reports.append(settled)
            self.seen.append(self.manifests())

    def manifests(self) -> dict[str, str]:
        return {path.parent.name: path.read_text() for path in sorted(self.root.glob("*/plugin.yaml"))}

    def changed(self) -> set[str]:
        return {Path(unit).name for each in self.reports for unit in each.changed}

    async def until(self, condition: Callable[[], bool], within: float = 5.0) -> None:
        end = time.monotonic() + within
        while not condition():
            assert time.monotonic() < end, (self.reports, self.seen, self.watcher.degraded)
            await asyncio.sleep(0.01)

    async def next_report(self, within: float = 5.0) -> Settled:
        before = len(self.reports)
        await self.until(lambda: len(self.reports) > before, within)
        return self.reports[-1]

    async def quiet(self, seconds: float = QUIET_S) -> None:
        before = list(self.reports)
        await asyncio.sleep(seconds)
        assert self.reports == before

    async def wait(self, name: str, text: str, within: float = 5.0) -> None:
        """Until a report was made while that manifest held that text."""
        await self.until(lambda: any(each.get(name) == text for each in self.seen), within)


@asynccontextmanager
async def watching(
    root: Path, *more: Path, files: Sequence[Path] = (), **options: object
) -> AsyncIterator[Reloads]:
    source = FolderSource([root, *more], excluded=options.get("excluded", ()))  # type: ignore[arg-type]

    last, scans = source.scan(), 0

    def state() -> ScanState:
        return scan_state(last, files={str(each): file_fingerprint(each) for each in files})

    def scan() -> ScanState:
        nonlocal last, scans
        last, scans = source.scan(), scans + 1
        return state()

    def rescan(places: frozenset[str]) -> ScanState | None:
        nonlocal last
        renewed = source.rescan(last, places)
        if renewed is None:
            return None
        last = renewed
        return state()

    options = {"rescan_s": 60.0, "unsettled_s": 3.0, **options}
    watcher = Watcher(
        lambda: [root, *more],
        scan,
        clock=SystemClock(),
        rescan=rescan,
        files=lambda: files,
        on_rescan_found=lambda: rescans.append(1),
        **options,  # type: ignore[arg-type]
    )
    rescans = list[int]()
    reloads = Reloads(watcher, root, lambda: scans)
    await watcher.start(scan())
    collector = asyncio.create_task(reloads.collect())
    await watcher.settle()  # the watches stand now
    await asyncio.sleep(0.05)
    try:
        yield reloads
    finally:
        await watcher.close()
        await asyncio.wait_for(collector, 1)
        reloads.rescans = len(rescans)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "plugins"
    root.mkdir()
    drop(root, "orders", "v0")
    return root


def drop(root: Path, name: str, text: str) -> Path:
    folder = root / name
    folder.mkdir()
    (folder / "plugin.yaml").write_text(text)
    return folder


def replace(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    os.replace(new, path)


async def test_a_manifest_replaced_three_times_is_noticed_three_times(root: Path) -> None:
    """samuelcolvin/watchfiles#127, fsnotify#17: an atomic save ends a watch on the file itself."""
    async with watching(root) as reloads:
        for number in range(1, 4):
            begun = time.monotonic()
            replace(root / "orders" / "plugin.yaml", f"v{number}")
            report = await reloads.next_report()
            assert time.monotonic() - begun < 2
            assert report == Settled("event", frozenset({str(root / "orders")}))
        await reloads.quiet()
    assert len(reloads.reports) == 3
    assert reloads.rescans == 0


async def test_a_change_in_one_plugin_looks_at_that_one_and_at_all_a_moment_later(root: Path) -> None:
    drop(root, "billing", "v0")
    async with watching(root) as reloads:
        before = reloads.scans()
        replace(root / "orders" / "plugin.yaml", "v1")
        await reloads.wait("orders", "v1")
        assert reloads.scans() == before
        assert reloads.changed() == {"orders"}
        await reloads.until(lambda: reloads.scans() == before + 1)
        await reloads.quiet()
        assert reloads.scans() == before + 1


async def test_what_changed_with_another_plugin_is_found_a_moment_later(root: Path) -> None:
    drop(root, "billing", "v0")
    shared = root / "orders" / "shared.py"
    shared.write_text("a")
    os.link(shared, root / "billing" / "shared.py")
    async with watching(root) as reloads:
        shared.write_text("longer")
        await reloads.until(lambda: reloads.changed() == {"orders", "billing"}, within=3)
    assert reloads.rescans == 0


async def test_the_swaps_of_a_mounted_volume_are_noticed(root: Path) -> None:
    """spf13/viper#284, jimmidyson/configmap-reload#190, open-feature/flagd#42: `..data` swaps."""
    folder = root / "volume"
    (folder / "..0").mkdir(parents=True)
    (folder / "..0" / "plugin.yaml").write_text("v0")
    (folder / "..data").symlink_to("..0")
    (folder / "plugin.yaml").symlink_to("..data/plugin.yaml")
    async with watching(root) as reloads:
        for number in range(1, 4):
            (folder / f"..{number}").mkdir()
            (folder / f"..{number}" / "plugin.yaml").write_text(f"v{number}")
            (folder / "..data_tmp").symlink_to(f"..{number}")
            os.replace(folder / "..data_tmp", folder / "..data")
            shutil.rmtree(folder / f"..{number - 1}")
            await reloads.wait("volume", f"v{number}")
        await reloads.quiet()
    assert reloads.changed() == {"volume"}
    assert reloads.rescans == 0


async def test_a_mounted_configuration_is_noticed(tmp_path: Path, root: Path) -> None:
    """envoy#3928: the same for a configuration file."""
    etc = tmp_path / "etc"
    for number in range(2):
        (etc / f"..{number}").mkdir(parents=True)
        (etc / f"..{number}" / "hermesd.yaml").write_text(f"v{number}")
    (etc / "..data").symlink_to("..0")
    (etc / "hermesd.yaml").symlink_to("..data/hermesd.yaml")
    async with watching(root, files=[etc / "hermesd.yaml"]) as reloads:
        (etc / "..tmp").symlink_to("..1")
        os.replace(etc / "..tmp", etc / "..data")
        report = await reloads.next_report()
        assert report.changed == {str(etc / "hermesd.yaml")}
        assert report.cause == "event"


async def test_a_root_that_is_made_later_is_watched(tmp_path: Path) -> None:
    """traefik#7240: watching ends when the path is missing at start."""
    root = tmp_path / "not" / "yet" / "plugins"
    async with watching(root) as reloads:
        root.mkdir(parents=True)
        drop(root, "orders", "v1")
        await reloads.wait("orders", "v1")
        replace(root / "orders" / "plugin.yaml", "v2")
        await reloads.wait("orders", "v2")
    assert reloads.rescans == 0


async def test_a_swapped_root_is_watched_again_and_nothing_is_removed_meanwhile(root: Path) -> None:
    """A watch follows the folder that was moved away, and is deaf for the new one."""
    async with watching(root) as reloads:
        root.rename(root.with_name("away"))
        await asyncio.sleep(0.3)
        assert "orders" not in reloads.changed()
        assert str(root / "orders") in reloads.watcher.unsettled
        root.mkdir()
        drop(root, "orders", "v1")
        await reloads.wait("orders", "v1")
        replace(root / "orders" / "plugin.yaml", "v2")
        await reloads.wait("orders", "v2")
    assert reloads.rescans == 0


async def test_a_root_behind_a_link_is_followed_when_the_link_is_swapped(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"rev{number}").mkdir()
        drop(tmp_path / f"rev{number}", "orders", f"v{number}")
    root = tmp_path / "current"
    root.symlink_to("rev0")
    async with watching(root) as reloads:
        (tmp_path / "next").symlink_to("rev1")
        os.replace(tmp_path / "next", root)
        await reloads.wait("orders", "v1")
        replace(root / "orders" / "plugin.yaml", "v2")
        await reloads.wait("orders", "v2")
    assert reloads.rescans == 0


async def test_a_change_without_an_event_is_found_by_the_rescan_and_counted(
    root: Path, tmp_path: Path
) -> None:
    """traefik#5589, gorakhargosh/watchdog#654: events that never come; the folder is not even watched."""
    elsewhere = drop(tmp_path, "linked", "v0")
    (root / "linked").symlink_to(elsewhere)
    async with watching(root, rescan_s=0.3) as reloads:
        replace(elsewhere / "plugin.yaml", "v1")
        report = await reloads.next_report()
        assert report == Settled("rescan", frozenset({str(root / "linked")}))
    assert reloads.rescans == 1


async def test_an_emptied_file_then_garbage_is_reported_once_and_never_empty(root: Path) -> None:
    """xremap#896, deblasis/wintty#1138: an in-place save that is read while it is empty."""
    manifest = root / "orders" / "plugin.yaml"
    async with watching(root) as reloads:
        manifest.write_text("")
        await asyncio.sleep(0.2)
        assert reloads.reports == []
        manifest.write_text("\tgarbage")
        await reloads.wait("orders", "\tgarbage")
        await reloads.quiet()
    assert len(reloads.reports) == 1


async def test_a_file_held_open_and_empty_is_waited_for(root: Path) -> None:
    """deblasis/wintty#1138: 120 ms between truncating and writing."""
    async with watching(root) as reloads:
        with (root / "orders" / "plugin.yaml").open("w") as file:
            await asyncio.sleep(0.12)
            file.write("v1")
        await reloads.wait("orders", "v1")
        await reloads.quiet()
    assert [each["orders"] for each in reloads.seen] == ["v1"]


async def test_a_writer_in_three_chunks_is_reported_once_when_it_is_done(root: Path) -> None:
    """prometheus-operator#2501, nuxencs/seasonpackarr#246: truncate, write, append."""
    async with watching(root) as reloads:
        with (root / "orders" / "plugin.yaml").open("w") as file:
            for chunk in ("a", "b", "c"):
                file.write(chunk)
                file.flush()
                await asyncio.sleep(0.1)
        await reloads.wait("orders", "abc")
        await reloads.quiet()
    assert [each["orders"] for each in reloads.seen] == ["abc"]


async def test_truncate_write_append_in_quick_succession_is_one_reload(root: Path) -> None:
    """nuxencs/seasonpackarr#246: callbacks that sleep, and a double reload."""
    manifest = root / "orders" / "plugin.yaml"
    async with watching(root) as reloads:
        os.truncate(manifest, 0)
        manifest.write_text("a")
        with manifest.open("a") as file:
            file.write("b")
        await reloads.wait("orders", "ab")
        await reloads.quiet()
    assert len(reloads.reports) == 1


async def test_a_slow_writer_is_waited_for_while_others_are_reported(root: Path) -> None:
    """samuelcolvin/watchfiles#345: load only once settled (10 × 0.2 s here)."""
    async with watching(root) as reloads:
        with (root / "orders" / "plugin.yaml").open("w") as file:
            for number in range(10):
                file.write(str(number))
                file.flush()
                if number == 3:
                    drop(root, "text", "v1")
                await asyncio.sleep(0.2)
            assert reloads.changed() == {"text"}
            assert reloads.reports[-1].unsettled == {str(root / "orders")}
        await reloads.wait("orders", "0123456789")
    assert reloads.changed() == {"text", "orders"}


async def test_a_copied_plugin_with_empty_files_is_reported_soon(root: Path, tmp_path: Path) -> None:
    source = drop(tmp_path, "copied", "v1")
    (source / "pkg").mkdir()
    (source / "pkg" / "__init__.py").write_text("")
    async with watching(root) as reloads:
        shutil.copytree(source, root / "copied")
        await reloads.wait("copied", "v1", within=2)
        await reloads.quiet()
    assert reloads.changed() == {"copied"}


async def test_eleven_manifests_in_50_ms_are_all_named(root: Path) -> None:
    """ViSiON-3/vision-3-bbs#320: a debounce that keeps the last file only."""
    async with watching(root) as reloads:
        for number in range(11):
            drop(root, f"p{number}", "v1")
        await reloads.until(lambda: reloads.changed() == {f"p{number}" for number in range(11)})
        await reloads.quiet()


async def test_what_an_editor_leaves_while_it_saves_is_no_change(root: Path) -> None:
    """vim: probe 4913, backup, swap file; then the file itself, once."""
    folder = root / "orders"
    async with watching(root) as reloads:
        with (folder / ".plugin.yaml.swp").open("w") as swap:
            swap.write("x")
            swap.flush()
            (folder / "4913").write_text("")
            (folder / "4913").unlink()
            (folder / "plugin.yaml").rename(folder / "plugin.yaml~")
            (folder / "plugin.yaml").write_text("v1")
            (folder / "plugin.yaml~").unlink()
            await reloads.wait("orders", "v1", within=2)
        (folder / ".plugin.yaml.swp").unlink()
        await reloads.quiet()
    assert len(reloads.reports) == 1


async def test_a_removed_plugin_is_reported(root: Path) -> None:
    drop(root, "text", "v0")
    async with watching(root) as reloads:
        shutil.rmtree(root / "text")
        report = await reloads.next_report()
        assert report.changed == {str(root / "text")}


async def test_a_changed_mode_is_noticed(root: Path) -> None:
    async with watching(root) as reloads:
        (root / "orders" / "plugin.yaml").chmod(0o666)
        await reloads.next_report(within=2)


async def test_the_daemons_own_writes_and_reads_change_nothing(root: Path) -> None:
    """DialmasterOrg/Youtarr#237: a watcher that is triggered by its own state."""
    data = root / "data"
    (data / "state").mkdir(parents=True)
    looks = list[int]()
    async with watching(root, excluded=[data]) as reloads:
        before = reloads.watcher.degraded
        original = reloads.watcher._scan

        def counting() -> ScanState:
            looks.append(1)
            return original()

        reloads.watcher._scan = counting
        for number in range(20):
            (data / "state" / f"{number}.json").write_text("{}")
            (root / "orders" / "plugin.yaml").read_text()
            await asyncio.sleep(0.03)
        await reloads.quiet()
    assert reloads.reports == []
    assert looks == []
    assert before is None


async def test_nothing_happens_after_close(root: Path) -> None:
    """vellum-ai/vellum-assistant#124: a debounce timer that fires after the stop."""
    threads = threading.active_count()
    descriptors = len(os.listdir("/proc/self/fd"))
    async with watching(root) as reloads:
        replace(root / "orders" / "plugin.yaml", "v1")
        await asyncio.sleep(0.03)
    await asyncio.sleep(0.3)
    assert reloads.reports == []
    assert len(asyncio.all_tasks()) == 1
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) == descriptors
    await reloads.watcher.close()
    with pytest.raises(DrainingError):
        await reloads.watcher.settle()


async def test_a_dead_watching_task_is_started_again_and_looks(root: Path) -> None:
    """gorakhargosh/watchdog#276: alive by the look of it, and no event for hours."""
    async with watching(root) as reloads:
        (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "hermesd-watch")
        task.cancel()
        replace(root / "orders" / "plugin.yaml", "v1")
        await reloads.wait("orders", "v1")
        replace(root / "orders" / "plugin.yaml", "v2")
        await reloads.wait("orders", "v2")


async def test_a_dead_observer_is_replaced_by_the_rescan(root: Path) -> None:
    """gorakhargosh/watchdog#276: the observing thread is gone."""
    made = list[BaseObserver]()

    def observer() -> BaseObserver:
        made.append(InotifyObserver())
        return made[-1]

    async with watching(root, rescan_s=0.3, observer=observer) as reloads:
        await asyncio.to_thread(made[0].stop)
        await reloads.until(lambda: len(made) == 2)
        await reloads.watcher.settle()
        replace(root / "orders" / "plugin.yaml", "v1")
        assert (await reloads.next_report()).cause == "event"


async def test_without_inotify_it_looks_often_and_says_so(root: Path) -> None:
    """gorakhargosh/watchdog#846, python-cachier#24: the inotify instance limit."""

    def exhausted() -> BaseObserver:
        raise OSError(errno.EMFILE, "inotify instance limit reached")

    async with watching(root, rescan_s=0.3, observer=exhausted) as reloads:
        assert "max_user_instances" in (reloads.watcher.degraded or "")
        replace(root / "orders" / "plugin.yaml", "v1")
        assert (await reloads.next_report()).cause == "rescan"


async def test_whatever_ails_the_observer_the_rescan_goes_on(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> BaseObserver:
        raise RuntimeError("can't start new thread")

    async with watching(root, rescan_s=0.3, observer=broken) as reloads:
        assert "can't start new thread" in (reloads.watcher.degraded or "")
        replace(root / "orders" / "plugin.yaml", "v1")
        await reloads.wait("orders", "v1")


async def test_inotify_that_comes_back_ends_the_degradation(root: Path) -> None:
    tries = list[int]()

    def observer() -> BaseObserver:
        tries.append(1)
        if len(tries) < 3:
            raise OSError(errno.ENOSPC, "inotify watch limit reached")
        return InotifyObserver()

    async with watching(root, rescan_s=0.1, observer=observer) as reloads:
        await reloads.until(lambda: reloads.watcher.degraded is None)
        replace(root / "orders" / "plugin.yaml", "v1")
        assert (await reloads.next_report()).cause == "event"


async def test_a_deaf_observer_is_replaced_and_then_named(root: Path, tmp_path: Path) -> None:
    elsewhere = drop(tmp_path, "linked", "v0")
    (root / "linked").symlink_to(elsewhere)
    async with watching(root, rescan_s=0.15) as reloads:
        for number in range(1, 3):
            replace(elsewhere / "plugin.yaml", f"v{number}")
            await reloads.wait("linked", f"v{number}")
        await reloads.until(lambda: "none had told" in (reloads.watcher.degraded or ""))
        replace(root / "orders" / "plugin.yaml", "v1")
        await reloads.until(lambda: reloads.watcher.degraded is None)


async def test_a_scan_that_raises_is_said_and_tried_again(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with watching(root, rescan_s=0.1) as reloads:
        original = reloads.watcher._scan

        def broken() -> ScanState:
            raise OSError("the disk is on fire")

        reloads.watcher._scan = broken
        await reloads.until(lambda: "on fire" in (reloads.watcher.degraded or ""))
        replace(root / "orders" / "plugin.yaml", "v1")
        reloads.watcher._scan = original
        await reloads.wait("orders", "v1")
        assert reloads.watcher.degraded is None


async def test_who_asks_gets_what_was_on_disk_before_it_asked(root: Path) -> None:
    async with watching(root, events=False) as reloads:
        assert (await reloads.watcher.settle()).changed == frozenset()
        replace(root / "orders" / "plugin.yaml", "v1")
        answers = await asyncio.gather(*(reloads.watcher.settle() for _ in range(3)))
        assert {each.changed for each in answers} == {frozenset({str(root / "orders")})}
        assert (await reloads.watcher.settle()).changed == frozenset()


async def test_asking_while_a_file_is_written_is_bounded(root: Path) -> None:
    async with watching(root) as reloads:
        with (root / "orders" / "plugin.yaml").open("w") as file:
            file.write("half")
            file.flush()
            begun = time.monotonic()
            answer = await reloads.watcher.settle(0.3)
            assert time.monotonic() - begun < 1.5
            assert answer.unsettled == {str(root / "orders")}
            assert answer.changed == frozenset()


async def test_two_scans_never_run_at_once_and_none_on_the_loop(root: Path) -> None:
    running, most, threads = [0], [0], set[str]()
    async with watching(root, rescan_s=0.02) as reloads:
        original = reloads.watcher._scan

        def slow() -> ScanState:
            running[0] += 1
            most[0] = max(most[0], running[0])
            threads.add(threading.current_thread().name)
            time.sleep(0.05)
            running[0] -= 1
            return original()

        reloads.watcher._scan = slow
        waits: list[Awaitable[object]] = [reloads.watcher.settle() for _ in range(5)]
        reloads.watcher.hint()
        await asyncio.gather(*waits)
    assert most == [1]
    assert {name.rpartition("_")[0] for name in threads} == {"hermesd-watch"}
