"""The main job, from outside: a plugin is dropped, trusted, called, edited, broken, mended and removed."""

from collections.abc import Callable

from tests.harness import Daemon, Home, eventually

CODE = '''
from hermesd.plugin import tool
from .words import WORD

@tool(side_effects="read", idempotent=True, when_to_use="to greet")
def say_word(name: str) -> str:
    """Greets."""
    return f"{WORD}, {name}"
'''


def test_a_dropped_plugin_waits_for_trust_then_serves_and_its_last_trusted_content_survives_edits(
    home: Home, serve: Callable[..., Daemon]
) -> None:
    daemon = serve()
    home.plugin("greeter", CODE, words='WORD = "hello"\n')
    listed = eventually(lambda: _plugin(daemon, "greeter"), what="the plugin to be found")
    assert listed["state"] == "unavailable"
    assert "ctl plugins trust greeter --digest sha256:" in listed["remedy"]

    pinned = daemon.ctl("plugins", "trust", "greeter", "--digest", listed["found_digest"])
    assert pinned.returncode == 0, pinned.stderr
    assert daemon.call("greeter.say_word", name="世界") == "hello, 世界"

    home.replace(home.plugins / "greeter" / "words.py", 'WORD = "bye"\n')
    waiting = eventually(
        lambda: (found := _plugin(daemon, "greeter"))["found_digest"] != found["digest"] and found,
        what="the new content to be reported",
    )
    assert "waits" in waiting["reason"] or "trust" in waiting["reason"]
    assert daemon.call("greeter.say_word", name="Ann") == "hello, Ann"


def test_a_followed_plugin_is_served_as_it_is_saved_and_its_last_good_version_outlives_a_mistake(
    home: Home, serve: Callable[..., Daemon]
) -> None:
    home.follow("greeter")
    home.plugin("greeter", CODE, words='WORD = "hello"\n')
    daemon = serve()
    assert daemon.call("greeter.say_word", name="Ann") == "hello, Ann"

    home.replace(home.plugins / "greeter" / "words.py", 'WORD = "salut"\n')
    eventually(lambda: daemon.call("greeter.say_word", name="Ann") == "salut, Ann", what="the edit to serve")

    home.replace(home.plugins / "greeter" / "words.py", "WORD = (\n")
    broken = eventually(lambda: _plugin(daemon, "greeter")["rejections"], what="the rejection")
    assert broken[0]["file"].endswith("words.py")
    assert broken[0]["line"] == 1
    assert daemon.call("greeter.say_word", name="Ann") == "salut, Ann"
    reload = daemon.ctl("reload")
    assert reload.returncode == 1
    assert "words.py:1" in reload.stdout + reload.stderr

    daemon.kill()
    again = serve()
    assert again.call("greeter.say_word", name="Ann") == "salut, Ann"

    home.replace(home.plugins / "greeter" / "words.py", 'WORD = "hola"\n')
    eventually(lambda: again.call("greeter.say_word", name="Ann") == "hola, Ann", what="the mended version")
    assert again.ctl("reload").returncode == 0

    for file in sorted((home.plugins / "greeter").iterdir()):
        file.unlink()
    (home.plugins / "greeter").rmdir()
    eventually(lambda: _plugin(again, "greeter") is None, 15, "the plugin to be gone")
    assert again.stop() == 0


def _plugin(daemon: Daemon, name: str) -> dict | None:
    return next(
        (each for each in daemon.ctl_json("plugins", "list")["plugins"] if each["name"] == name), None
    )
