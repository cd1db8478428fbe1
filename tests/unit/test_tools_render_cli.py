"""`docs/cli.md` says what the commands say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.render_cli import PAGE, render


def test_the_page_is_not_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "TERMINAL_WIDTH"):
        monkeypatch.delenv(name, raising=False)
    assert PAGE.read_text(encoding="utf-8") == render(), "run python -m tools.render_cli"


def test_every_exit_status_is_explained() -> None:
    page = Path(PAGE).read_text(encoding="utf-8")
    for status in (0, 1, 2, 3, 4, 5, 130):
        assert f"| {status} | " in page
