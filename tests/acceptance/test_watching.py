"""A daemon notices what changes on disk, however it was written, and only that."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import Daemon, Home, eventually

Serve = Callable[..., Daemon]


def code(word: str) -> str:
    return f"""
from hermesd.plugin import tool

@tool(side_effects="read", description="Says one word.", when_to_use="in tests")
def say_word() -> str:
    return {word!r}
"""


def reloads(daemon: Daemon) -> int:
    return sum(each.subject == "watch" for each in daemon.events("reload_finished"))


def says(daemon: Daemon, plugin: str, word: str, within_s: float = 10.0) -> None:
    def heard() -> bool:
        with daemon.client() as client:
            result = client.call_tool(f"{plugin}.say_word")
        return result.ok and result.data == word

    eventually(heard, within_s, f"{plugin} to say {word}")


@pytest.mark.promise("FLT-1")
def test_each_of_three_atomic_saves_of_a_manifest_is_served(home: Home, serve: Serve) -> None:
    """samuelcolvin/watchfiles#127, fsnotify#17, fsnotify#372: saving by renaming ends a watch."""
    home.follow("orders")
    home.plugin("orders", code("a"))
    daemon = serve()
    for version in ("1.0.1", "1.0.2", "1.0.3"):
        before = (home.plugins / "orders" / "plugin.yaml").stat().st_ino
        home.replace(
            home.plugins / "orders" / "plugin.yaml",
            f"name: orders\nversion: {version}\nentry: orders.py\n",
        )
        assert (home.plugins / "orders" / "plugin.yaml").stat().st_ino != before
        eventually(
            lambda version=version: daemon.plugin("orders").version == version, what=f"version {version}"
        )
    assert reloads(daemon) == 3


@pytest.mark.promise("FLT-1")
def test_the_swaps_of_a_mounted_volume_are_served_though_the_old_folder_is_deleted(
    home: Home, serve: Serve
) -> None:
    """spf13/viper#284, jimmidyson/configmap-reload#190, open-feature/flagd#42, envoy#3928,
    jdiazcano/cfg4k#65: a `..data` link is swapped."""
    home.follow("orders")
    mount = home.plugins / "orders"
    mount.mkdir()

    def swap(word: str) -> None:
        old = mount / "..data"
        gone = old.resolve() if old.is_symlink() else None
        data = mount / f"..2026_{word}"
        data.mkdir()
        (data / "plugin.yaml").write_text("name: orders\nversion: 1.0.0\nentry: orders.py\n")
        (data / "orders.py").write_text(code(word))
        (mount / "..data_tmp").symlink_to(data.name)
        (mount / "..data_tmp").rename(old)
        for name in ("plugin.yaml", "orders.py"):
            if not (mount / name).is_symlink():
                (mount / name).symlink_to(f"..data/{name}")
        if gone is not None:
            shutil.rmtree(gone)

    swap("zero")
    daemon = serve()
    says(daemon, "orders", "zero")
    for word in ("one", "two", "three"):
        swap(word)
        says(daemon, "orders", word)


def test_a_plugin_directory_that_is_made_after_the_start_is_served(home: Home, serve: Serve) -> None:
    """traefik#7240: a watch that begins on a missing path must not end there."""
    home.plugins.rmdir()
    home.follow("orders")
    daemon = serve()
    home.plugins.mkdir(mode=0o755)
    home.plugin("orders", code("late"))
    eventually(lambda: daemon.plugin("orders"), what="the plugin to be found")
    says(daemon, "orders", "late")


def test_what_no_event_tells_of_is_found_by_the_rescan_and_counted(home: Home, serve: Serve) -> None:
    """traefik#5589, #10409: events of a bind-mounted file go to the other name of its inode.

    A hard link stands for the mount: what is written through it makes no event in the watched folder.
    """
    home.configure({"server": {"http": "127.0.0.1:0"}}, trusted={"orders": {"follow": True}}, rescan_s=1)
    home.plugin("orders", code("before"))
    (home.path / "elsewhere").mkdir()
    outside = home.path / "elsewhere" / "outside.py"
    os.link(home.plugins / "orders" / "orders.py", outside)
    daemon = serve()
    says(daemon, "orders", "before")
    outside.write_text(code("after-"))
    says(daemon, "orders", "after-")
    address = daemon.events("http_started")[0].subject
    counted = re.search(r"^hermesd_rescan_found_changes_total (\d+)", _get(f"http://{address}/metrics"), re.M)
    assert int(counted[1]) >= 1


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.read().decode()


@pytest.mark.promise("FLT-2")
def test_a_file_that_is_emptied_then_filled_with_garbage_leaves_the_old_version_serving(
    home: Home, serve: Serve
) -> None:
    """xremap#896: an empty read unloaded everything, and then the file could not be parsed."""
    home.follow("orders")
    home.plugin("orders", code("good"))
    daemon = serve()
    digest = daemon.plugin("orders").digest
    manifest = home.plugins / "orders" / "plugin.yaml"
    with manifest.open("w") as file:
        time.sleep(0.2)
        says(daemon, "orders", "good")
        file.write("\x00\x01{{{garbage")
    broken = eventually(lambda: daemon.plugin("orders").rejections, what="the rejection")
    assert broken[0].file == str(manifest)
    assert broken[0].line == 1
    assert broken[0].reason
    assert broken[0].remedy
    says(daemon, "orders", "good")
    assert daemon.plugin("orders").digest == digest
    assert daemon.plugin("orders").state == "degraded"


@pytest.mark.promise("FLT-2")
def test_a_slow_or_careless_save_is_served_once_and_whole(home: Home, serve: Serve) -> None:
    """deblasis/wintty#1138, prometheus-operator#2501, nuxencs/seasonpackarr#246,
    samuelcolvin/watchfiles#345: a file is read while its writer has not finished."""
    home.follow("orders")
    home.plugin("orders", code("zero"))
    daemon = serve()
    file = home.plugins / "orders" / "orders.py"

    file.write_text("")  # an editor that empties first
    time.sleep(0.12)
    file.write_text(code("one"))
    says(daemon, "orders", "one")

    text = code("two")
    third = len(text) // 3
    with file.open("w") as slow:  # in three pieces
        for piece in (text[:third], text[third : 2 * third], text[2 * third :]):
            slow.write(piece)
            slow.flush()
            time.sleep(0.1)
    says(daemon, "orders", "two")

    text = code("three")
    file.write_text(text[:third])  # truncate, write, append: three openings
    with file.open("a") as again:
        again.write(text[third:])
    says(daemon, "orders", "three")

    text = code("four")
    step = len(text) // 10 + 1
    seen = reloads(daemon)
    with file.open("w") as slow:
        for start in range(0, len(text), step):
            slow.write(text[start : start + step])
            slow.flush()
            time.sleep(0.25)
        assert reloads(daemon) == seen, "nothing is read before its writer has closed it"
    says(daemon, "orders", "four")

    assert reloads(daemon) == 4
    assert not daemon.plugin("orders").rejections
    assert not daemon.events("plugin_rejected")


@pytest.mark.promise("FLT-1")
def test_eleven_plugins_written_within_an_instant_are_all_served(home: Home, serve: Serve) -> None:
    """ViSiON-3/vision-3-bbs#320: a debounce that keeps the last file alone loses the others."""
    names = [f"p{number}" for number in range(11)]
    home.follow(*names)
    daemon = serve()
    begun = time.monotonic()
    for name in names:
        home.plugin(name, code(name))
    assert time.monotonic() - begun < 0.5
    eventually(lambda: all(daemon.plugin(name) for name in names), what="all eleven")
    for name in names:
        says(daemon, name, name)
    assert reloads(daemon) <= 3


@pytest.mark.promise("FLT-3")
def test_what_the_daemon_itself_writes_wakes_no_reload(home: Home, serve: Serve) -> None:
    """DialmasterOrg/Youtarr#237: a daemon that watches what it writes reloads for ever."""
    # The worst case: the data dir lies inside a plugin directory.
    home.data = home.plugins / "data"
    home.configure(trusted={"orders": {"follow": True}, "log": {"follow": True}}, rescan_s=1)
    home.plugin("orders", code("a"))
    daemon = serve()
    daemon.reload()
    assert daemon.ctl("tools", "disable", "orders.say_word").returncode == 0
    assert daemon.ctl("tools", "enable", "orders.say_word").returncode == 0
    time.sleep(3)
    assert reloads(daemon) == 0
    assert daemon.plugin("data") is None


def test_an_edit_just_before_the_stop_keeps_nothing_running(home: Home, serve: Serve) -> None:
    """vellum-ai/vellum-assistant#124: a debounce timer that fires after the stop."""
    home.follow("orders")
    home.plugin("orders", code("a"))
    daemon = serve()
    before = daemon.plugin("orders").digest
    home.replace(home.plugins / "orders" / "orders.py", code("b"))
    begun = time.monotonic()
    assert daemon.stop() == 0
    assert time.monotonic() - begun < 5
    assert "Traceback" not in daemon.log_text()
    log = daemon.log_text()
    assert "plugin_ready" not in log[log.index("daemon_stopping") :]
    assert before


def test_every_way_to_ask_for_a_reload_goes_on_working_beside_the_others(home: Home, serve: Serve) -> None:
    """coredns#6263: a second path to the reload broke the first."""

    home.follow("orders")
    home.plugin("orders", code("w0"))
    daemon = serve()
    for number in range(1, 16):
        word = f"w{number}"
        home.replace(home.plugins / "orders" / "orders.py", code(word))
        if number % 3 == 1:
            daemon.reload()
        elif number % 3 == 2:
            daemon.process.send_signal(signal.SIGHUP)
        says(daemon, "orders", word)
    causes = {each.subject for each in daemon.events("reload_finished")}
    assert {"watch", "rpc", "signal"} <= causes


@pytest.mark.promise("FLT-4")
def test_a_folder_exchanged_under_the_watcher_is_served_and_goes_on_being_watched(
    home: Home, serve: Serve
) -> None:
    """fsnotify#372: a watch stays on the inode that is gone, and the new folder is never heard."""
    home.follow("orders")
    home.plugin("orders", code("old"))
    daemon = serve()
    new = home.path / "new"
    shutil.copytree(home.plugins / "orders", new)
    (new / "orders.py").write_text(code("new"))
    (home.plugins / "orders").rename(home.path / "old")
    new.rename(home.plugins / "orders")
    says(daemon, "orders", "new")
    home.replace(home.plugins / "orders" / "orders.py", code("newer"))
    says(daemon, "orders", "newer")

    whole = home.path / "plugins2"
    shutil.copytree(home.plugins, whole)
    (whole / "orders" / "orders.py").write_text(code("root"))
    home.plugins.rename(home.path / "gone")
    whole.rename(home.plugins)
    says(daemon, "orders", "root", 15)
    home.replace(home.plugins / "orders" / "orders.py", code("root2"))
    says(daemon, "orders", "root2", 15)


def test_link_loops_and_pipes_are_refused_by_name_and_hold_up_nobody(home: Home, serve: Serve) -> None:
    """Links that lead back, links that leave the folder, pipes, and a loop as the unit itself."""
    home.follow("orders", "loop", "away", "pipe", "self")
    home.plugin("orders", code("fine"))
    (home.plugin("loop", code("x")) / "again").symlink_to(".")
    (home.plugin("away", code("x")) / "host").symlink_to("/etc/hostname")
    os.mkfifo(home.plugin("pipe", code("x")) / "pipe")
    (home.plugins / "self").symlink_to("self")
    daemon = serve()
    says(daemon, "orders", "fine")
    for name, what in (("loop", "again"), ("away", "host"), ("pipe", "pipe")):
        found = daemon.plugin(name)
        assert found.state == "rejected", found
        assert what in str(found.rejections[0]), found
        assert found.rejections[0].remedy
    answer = daemon.reload()
    assert {"loop", "away", "pipe"} <= {each.name for each in answer.rejected}
    named = [each for each in (*answer.rejected, *answer.notices) if "self" in Path(each.file).name]
    assert named or daemon.plugin("self") is not None, "nothing is silently absent"


def test_without_file_events_the_daemon_polls_and_says_so(home: Home, serve: Serve) -> None:
    """gorakhargosh/watchdog#846, python-cachier#24: the limit of inotify instances is reached."""
    if subprocess.run([*WITHOUT_EVENTS, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody make a user namespace with a limit of its own")
    home.follow("orders")
    home.plugin("orders", code("a"))
    daemon = serve(prefix=WITHOUT_EVENTS)
    eventually(lambda: daemon.events("watcher_degraded"), what="the event")
    warning = next(each for each in daemon.status().warnings if "event" in each.reason)
    assert "max_user_instances" in warning.reason
    home.replace(home.plugins / "orders" / "orders.py", code("b"))
    says(daemon, "orders", "b", 8)
    within = ["nsenter", "--user", "--preserve-credentials", "--target", str(daemon.pid), "sh", "-c"]
    subprocess.run([*within, f"echo 99 > {INSTANCES}"], check=True)
    eventually(lambda: daemon.events("watcher_recovered"), what="the recovery")


INSTANCES = "/proc/sys/user/max_inotify_instances"
#: Before a command: it may have no inotify instance. Of its own namespace: others of this user keep theirs.
WITHOUT_EVENTS = (
    *("unshare", "--user", "--map-root-user", "sh", "-c"),
    *(f'echo 0 > {INSTANCES} && exec "$@"', "sh"),
)
