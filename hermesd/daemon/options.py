"""What `hermesd serve` was asked for on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """None and () mean that the flag was not given, so that configuration and defaults speak.

    `listen` replaces `server.listen` as a whole.
    """

    config: Path | None = None
    data_dir: Path | None = None
    listen: tuple[str, ...] = ()
    log_format: Literal["text", "json"] | None = None
    log_level: str | None = None
