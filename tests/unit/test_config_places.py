"""Where things are when nobody says."""

from __future__ import annotations

from pathlib import Path

from hermesd.config import places

USER = {
    "HOME": "/h/ann",
    "XDG_RUNTIME_DIR": "/run/user/7",
    "XDG_CONFIG_HOME": "/c",
    "XDG_STATE_HOME": "/s",
}


def test_the_configuration_is_looked_for_where_the_operator_says_first() -> None:
    named = USER | {"HERMESD_CONFIG": "/x.yaml"}
    assert places.config_path(Path("/y.yaml"), named, True) == (Path("/y.yaml"),)
    assert places.config_path(None, named, True) == (Path("/x.yaml"),)
    assert places.is_config_named(None, named)
    assert not places.is_config_named(None, USER)


def test_root_and_users_have_folders_of_their_own() -> None:
    assert places.config_path(None, USER, True)[0] == Path("/etc/hermesd/hermesd.yaml")
    assert places.config_path(None, USER, False)[0] == Path("/c/hermesd/hermesd.yaml")
    assert places.config_folder({"HOME": "/h/ann"}, False) == Path("/h/ann/.config/hermesd")
    assert places.data_dir(USER, True) == Path("/var/lib/hermesd")
    assert places.data_dir(USER, False) == Path("/s/hermesd")
    assert places.data_dir({"HOME": "/h/ann"}, False) == Path("/h/ann/.local/state/hermesd")
    assert places.listen_address(USER, True) == "unix:/run/hermesd/hermesd.sock"
    assert places.listen_address(USER, False) == "unix:/run/user/7/hermesd/hermesd.sock"


def test_a_user_without_a_runtime_folder_still_has_a_socket_that_clients_find() -> None:
    """A container, `su` and cron set no XDG_RUNTIME_DIR."""
    bare = {"HOME": "/h/ann"}
    assert places.listen_address(bare, False) == "unix:/h/ann/.local/state/hermesd/hermesd.sock"
    assert places.client_addresses(bare) == (
        "unix:/h/ann/.local/state/hermesd/hermesd.sock",
        "unix:/run/hermesd/hermesd.sock",
    )
    relative = {"XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "run"}
    assert places.listen_address(relative, False) == "unix:/s/hermesd/hermesd.sock"


def test_what_systemd_hands_over_wins_and_its_first_folder_counts() -> None:
    unit = USER | {"RUNTIME_DIRECTORY": "/run/h:/run/i", "STATE_DIRECTORY": "/var/h:/var/i"}
    assert places.data_dir(unit, True) == Path("/var/h")
    assert places.listen_address(unit, True) == "unix:/run/h/hermesd.sock"


def test_without_a_home_nothing_is_guessed() -> None:
    assert places.config_path(None, {}, False) == ()
    assert places.data_dir({}, False) is None
    assert places.listen_address({}, False) is None
    assert places.config_folder({"XDG_CONFIG_HOME": "relative"}, False) is None


def test_a_client_tries_the_contracts_places_in_order() -> None:
    unit = USER | {"RUNTIME_DIRECTORY": "/run/h"}
    assert places.client_addresses(unit) == (
        "unix:/run/h/hermesd.sock",
        "unix:/run/user/7/hermesd/hermesd.sock",
        "unix:/run/hermesd/hermesd.sock",
    )
    assert places.client_addresses({"RUNTIME_DIRECTORY": "/run/hermesd"}) == (
        "unix:/run/hermesd/hermesd.sock",
    )
    assert places.client_addresses(unit | {"HERMESD_ADDRESS": "unix:/z"}) == ("unix:/z",)


def test_a_client_looks_where_the_daemon_listens() -> None:
    for environ, is_root in ((USER, False), (USER, True), (USER | {"RUNTIME_DIRECTORY": "/run/h"}, False)):
        assert places.listen_address(environ, is_root) in places.client_addresses(environ)
