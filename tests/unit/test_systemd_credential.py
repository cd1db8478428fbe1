"""Credentials of systemd are read once, at the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermesd.errors import StoreError
from hermesd.systemd.credential import Credentials


@pytest.mark.promise("OPS-3")
def test_a_secret_is_read_once_and_outlives_what_happens_to_the_folder(tmp_path: Path) -> None:
    """systemd#35227, systemd#25237, systemd#24291: a reload finds the folder replaced, emptied or gone."""
    secret = tmp_path / "store.key"
    secret.write_text("钥匙")
    credentials = Credentials.from_environ({"CREDENTIALS_DIRECTORY": str(tmp_path)})
    secret.write_text("changed")
    assert credentials.read(secret) == "钥匙".encode()
    secret.unlink()
    tmp_path.rmdir()
    assert credentials.read(secret) == "钥匙".encode()


def test_only_paths_in_the_folder_itself_are_credentials(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "a").write_text("x")
    credentials = Credentials.from_environ({"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert credentials.read(tmp_path / "folder") is None
    assert credentials.read(tmp_path / "missing") is None
    assert credentials.read(tmp_path / "folder" / ".." / "a") is None
    assert Credentials.from_environ({}).read(tmp_path / "a") is None


def test_a_promised_folder_that_cannot_be_read_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read") as caught:
        Credentials.from_environ({"CREDENTIALS_DIRECTORY": str(tmp_path / "gone")})
    assert "LoadCredential" in caught.value.remedy


def test_more_than_systemd_allows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * (1024 * 1024 + 1))
    with pytest.raises(StoreError, match="1 MiB"):
        Credentials.from_environ({"CREDENTIALS_DIRECTORY": str(tmp_path)})
