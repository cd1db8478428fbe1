"""What the configuration asks for and this machine, or this user, does not have: a daemon would not start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hermesd.access.socket_access import group_id
from hermesd.config.configuration import Configuration
from hermesd.errors import PreconditionError, Rejection
from hermesd.store.layout import LAYOUT_VERSION, DataDir


def start_faults(configuration: Configuration, directory: DataDir | None) -> Iterator[Rejection]:
    """The socket's group and the data dir, as far as looking tells; nothing is changed.

    Meant as warnings: a configuration is often checked on another machine, or by another user, than the
    one it is written for.
    """
    for fault in (*_group_faults(configuration.server.socket_group), *_data_dir_faults(directory)):
        place = configuration.place(fault.name)
        reason = f"the daemon would not start here: {fault.reason}"
        file, line, column = place if place is not None else ("", 0, 0)
        yield replace(fault, reason=reason, file=file, line=line, column=column)


def _group_faults(group: str) -> Iterator[Rejection]:
    try:
        if group:
            group_id(group)
    except PreconditionError as error:
        yield Rejection("server.socket_group", error.message, error.remedy)


def _data_dir_faults(directory: DataDir | None) -> Iterator[Rejection]:
    if directory is None:
        yield Rejection("data_dir", "nothing says where to keep data", "set data_dir, or HOME")
        return
    root = directory.root.absolute()
    nearest = next(each for each in (root, *root.parents) if os.path.exists(each))
    another = "or choose another data dir"
    if not nearest.is_dir():
        yield Rejection("data_dir", f"{nearest} is no directory", f"move it away, {another}")
    elif nearest == root and root.stat().st_uid != os.geteuid():
        yield Rejection(
            "data_dir", f"{root} belongs to another user", f"chown {os.geteuid()} {root}, {another}"
        )
    elif not os.access(nearest, os.R_OK | os.W_OK | os.X_OK):
        what = f"{root} cannot be {'used' if nearest == root else 'made'}"
        yield Rejection("data_dir", what, f"let this user write to {nearest}, {another}")
    elif (layout := _layout(directory.version)) > LAYOUT_VERSION:
        reason = f"{root} was written by a newer hermesd (layout {layout}, this build: {LAYOUT_VERSION})"
        yield Rejection("data_dir", reason, f"use that hermesd, {another}")


def _layout(version: Path) -> int:
    """The number in a VERSION file; 0 where there is none to be read."""
    try:
        return int(version.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
