"""Where a plugin runs and with which content: the operator's word, the folder, and what served before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermesd.model.status import State
from tests.reading_doubles import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def runs(site: Site, name: str = "orders") -> str:
    """What the goal serves, "" for nothing."""
    run = site.goal(name).run
    return "" if run is None else run.spec.digest


def test_a_dropped_folder_is_not_trusted_and_says_how_to_trust_it(site: Site) -> None:
    site.plugin("orders")
    goal = site.goal("orders")
    assert goal.run is None
    assert goal.idle is not None
    assert goal.idle.state is State.UNAVAILABLE
    assert f"hermesd ctl plugins trust orders --digest {goal.found_digest}" in goal.idle.remedy
    assert goal.rejections == (), "an untrusted plugin is no rejection"
    assert goal.files == ("main.py", "plugin.yaml")


def test_trusted_content_runs_in_process_or_where_its_entry_says(site: Site) -> None:
    site.plugin("orders")
    digest = site.digest("orders")
    for isolation, where in (("inprocess", "inprocess"), ("process", "worker")):
        site.configure(trusted={"orders": {"digest": digest, "isolation": isolation}})
        run = site.goal("orders").run
        assert run is not None
        assert (run.where, run.spec.digest) == (where, digest)
        assert run.spec.root.is_relative_to(site.directory.plugins), "it runs from the content store alone"


def test_a_grant_trusts_as_the_configuration_does_and_the_configuration_wins(site: Site) -> None:
    site.plugin("orders")
    digest = site.digest("orders")
    site.grants.trust("orders", digest, by="operator")
    assert runs(site) == digest
    site.configure(trusted={"orders": "sha256:" + "0" * 64})
    assert runs(site) == ""
    site.configure(untrusted={"orders": {}})
    assert runs(site) == ""
    site.configure()
    assert runs(site) == digest


def test_changed_content_waits_for_trust_while_the_trusted_one_serves(site: Site) -> None:
    site.plugin("orders", "1")
    old = site.digest("orders")
    site.configure(trusted={"orders": old})
    site.serve("orders")
    site.plugin("orders", "2")
    for _ in range(2):
        goal = site.goal("orders")
        assert goal.run is not None
        assert (goal.run.spec.digest, goal.found_digest != old) == (old, True)
        assert goal.found_digest in " ".join(goal.awaiting)
        assert goal.rejections == ()
        site.restart()


def test_whoever_follows_serves_what_the_folder_holds_and_falls_back_on_what_served(site: Site) -> None:
    site.plugin("orders", "1")
    site.follow("orders")
    old = runs(site)
    site.serve("orders")
    site.plugin("orders", "2")
    goal = site.goal("orders")
    assert goal.run is not None
    assert goal.fallback is not None
    assert goal.run.spec.digest == goal.found_digest != old
    assert goal.fallback.spec.digest == old


def test_a_rollback_holds_a_plugin_at_an_earlier_content(site: Site) -> None:
    """hermes-agent#20350, hermes-otel#134: no way back to what worked."""
    site.plugin("orders", "1")
    old = site.digest("orders")
    site.grants.trust("orders", old, by="operator")
    site.serve("orders")
    site.plugin("orders", "2")
    site.grants.trust("orders", site.digest("orders"), by="operator")
    assert runs(site) != old
    site.grants.pin("orders", old, by="operator")
    for _ in range(2):
        assert runs(site) == old
        assert "rollback" in site.goal("orders").awaiting[0]
        site.restart()


def test_what_is_switched_off_rests_however_trusted(site: Site) -> None:
    site.plugin("orders")
    site.follow("orders")
    site.grants.set_plugin("orders", enabled=False, by="operator")
    goal = site.goal("orders")
    assert goal.run is None
    assert goal.idle is not None
    assert (goal.idle.state, goal.idle.remedy) == (State.DISABLED, "hermesd ctl plugins enable orders")
    site.grants.set_plugin("orders", enabled=True, by="operator")
    assert runs(site)


@pytest.mark.promise("CORE-18")
@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize("how", ["manifest", "no manifest", "mode"])
def test_the_last_good_content_serves_after_a_restart_too_though_the_folder_is_broken(
    site: Site, follow: bool, how: str
) -> None:
    """I7: a running daemon and a fresh one come to the same."""
    folder = site.plugin("orders", "1")
    digest = site.digest("orders")
    site.configure(trusted={"orders": {"follow": True} if follow else digest})
    site.serve("orders")
    if how == "manifest":
        site.write(folder / "plugin.yaml", "name: [orders\n")
    elif how == "no manifest":
        (folder / "plugin.yaml").unlink()
    else:
        shutil.rmtree(folder)
        folder.symlink_to(site.path / "nowhere")
    for _ in range(3):
        plan = site.read()
        goal = plan.goals["orders"]
        assert goal.run is not None
        assert goal.run.spec.digest == digest
        assert [*plan.rejections, *goal.rejections], "and it says what is wrong"
        site.restart()


def test_a_folder_that_never_served_and_cannot_be_read_is_a_fault_and_no_plugin(site: Site) -> None:
    (site.plugins / "notes").mkdir(mode=0o755)
    plan = site.read()
    assert plan.goals == {}
    assert "holds no plugin.yaml" in plan.rejections[0].reason


def test_a_folder_that_others_can_write_is_not_trusted(site: Site) -> None:
    folder = site.plugin("orders", "1")
    site.follow("orders")
    good = runs(site)
    site.serve("orders")
    site.plugin("orders", "2")
    folder.chmod(0o777)
    goal = site.goal("orders")
    assert goal.run is not None
    assert (goal.run.spec.digest, goal.unsafe is not None) == (good, True)


def test_a_plugin_directory_that_becomes_writable_by_others_is_noticed_though_no_plugin_changed(
    site: Site,
) -> None:
    site.plugin("orders")
    site.follow("orders")
    assert runs(site)
    site.plugins.chmod(0o777)
    assert site.goal("orders").unsafe is not None
    site.plugins.chmod(0o755)
    assert site.goal("orders").unsafe is None


SETTINGS = """
settings:
  type: object
  required: [region]
  additionalProperties: false
  properties: {region: {type: string}}
"""


def test_settings_are_checked_and_a_fault_names_the_line_in_the_configuration(site: Site) -> None:
    site.plugin("orders", manifest=SETTINGS)
    site.configure(trusted={"orders": {"follow": True}}, settings={"orders": {"region": 5}})
    goal = site.goal("orders")
    assert goal.run is None
    (rejection,) = goal.rejections
    line = site.config.read_text().splitlines()[rejection.line - 1]
    assert (rejection.file, "orders" in line or "region" in line) == (str(site.config), True)
    assert "plugins.settings.orders.region" in rejection.reason
    site.configure(trusted={"orders": {"follow": True}}, settings={"orders": {"region": "eu"}})
    run = site.goal("orders").run
    assert run is not None
    assert run.spec.settings == {"region": "eu"}


def test_what_is_missing_in_the_settings_is_told_too(site: Site) -> None:
    site.plugin("orders", manifest=SETTINGS)
    site.follow("orders")
    assert "region" in site.goal("orders").rejections[0].reason


ASKS = "permissions: {secrets: [TOKEN, OTHER], calls: ['text.*', 'stock.*']}\n"


def test_a_plugin_gets_the_secrets_it_asks_for_and_no_other(site: Site) -> None:
    site.plugin("orders", manifest=ASKS)
    site.configure(trusted={"orders": {"follow": True}}, secrets={"TOKEN": "t1", "HIDDEN": "h1"})
    run = site.goal("orders").run
    assert run is not None
    assert (run.spec.secrets, run.calls) == ({"TOKEN": "t1"}, ("text.*", "stock.*"))


def test_what_was_granted_bounds_what_is_asked(site: Site) -> None:
    """hermes-agent#64228, #35917: rights that nobody declared or agreed to."""
    site.plugin("orders", manifest=ASKS)
    grant = {"secrets": ["TOKEN", "HIDDEN"], "calls": ["text.*"]}
    secrets = {"TOKEN": "t", "OTHER": "o", "HIDDEN": "h"}
    site.configure(trusted={"orders": {"follow": True, "grant": grant}}, secrets=secrets)
    run = site.goal("orders").run
    assert run is not None
    assert (run.spec.secrets, run.calls) == ({"TOKEN": "t"}, ("text.*",))
    site.configure(trusted={"orders": {"follow": True}}, secrets=secrets)
    site.grants.grant("orders", {"secrets": ["OTHER"]}, by="operator")
    run = site.goal("orders").run
    assert run is not None
    assert (run.spec.secrets, run.calls) == ({"OTHER": "o"}, ())


def test_a_changed_secret_or_setting_is_another_instance_and_shows_in_no_key(site: Site) -> None:
    site.plugin("orders", manifest=ASKS)
    keys = []
    for secret, settings in (("s3cret-one", {}), ("s3cret-two", {}), ("s3cret-two", {"a": 1})):
        site.configure(
            trusted={"orders": {"follow": True}}, secrets={"TOKEN": secret}, settings={"orders": settings}
        )
        plan = site.read()
        run = plan.goals["orders"].run
        assert run is not None
        assert secret not in f"{run.key}{plan.revision}"
        keys.append(run.key)
    assert len(set(keys)) == 3


def test_every_limit_that_an_instance_is_made_with_makes_another_one(site: Site) -> None:
    site.plugin("orders", "1")
    keys = set()
    for plugins, defaults in (
        ({}, {}),
        ({"max_stray_threads": 7}, {}),
        ({"idle_stop_s": 7}, {}),
        ({"close_timeout_s": 7}, {}),
        ({"prepare_timeout_s": 7}, {}),
        ({}, {"max_concurrency": 7}),
        ({}, {"description_chars": {"warn": 7}}),
    ):
        site.configure(trusted={"orders": {"follow": True}}, defaults=defaults, **plugins)
        run = site.goal("orders").run
        assert run is not None
        keys.add(run.key)
    assert len(keys) == 7


def test_a_plugin_directory_that_was_named_and_is_not_there_is_told_with_its_line(site: Site) -> None:
    """hermes-agent#33924: a slip in the configuration that was an empty set."""
    assert site.read().notices == ()
    site.configure(dirs=[str(site.plugins), str(site.plugins / "nowhere")])
    (told,) = site.read().notices
    assert "nowhere does not exist" in told.reason
    assert (told.file, told.line > 0) == (str(site.config), True)
    (site.plugins / "nowhere").mkdir()
    assert site.read().notices == ()


def test_a_single_file_is_a_plugin(site: Site) -> None:
    site.write(site.plugins / "notes.py", "__version__ = '2.0.0'\n")
    site.follow("notes")
    run = site.goal("notes").run
    assert run is not None
    assert (run.spec.name, run.spec.version, run.spec.entry) == ("notes", "2.0.0", "notes.py")


def test_what_this_build_cannot_serve_is_listed_with_the_reason(site: Site) -> None:
    site.write(site.plugins / "weather.yaml", "tools: []\n")
    goal = site.goal("weather")
    assert goal.idle is not None
    assert "not in this build" in goal.idle.reason


def test_a_manifest_lists_its_tools_while_the_plugin_rests(site: Site) -> None:
    site.plugin("orders", manifest="tools: [{name: orders.tell_version, description: d}]\n")
    goal = site.goal("orders")
    assert goal.idle is not None
    assert [each.name for each in goal.idle.tools] == ["orders.tell_version"]
