"""Files that travel with hermesd beside its code: from a wheel and from a checkout alike."""

from __future__ import annotations

from pathlib import Path

import hermesd
from hermesd.errors import NotFoundError

SHIPPED = ("plugins", "systemd")


def shipped(name: str) -> Path:
    """The folder `name` of this installation: `hermesd/_shipped/NAME` in a wheel, `NAME` in a checkout.

    Raises NotFoundError when the installation is incomplete.
    """
    if name not in SHIPPED:
        raise NotFoundError(f"nothing named {name!r} is shipped", remedy=f"one of {', '.join(SHIPPED)}")
    package = Path(hermesd.__file__).parent
    installed = package / "_shipped" / name
    if installed.is_dir():
        return installed
    checkout = package.parent / name
    if checkout.is_dir() and (package.parent / "pyproject.toml").is_file():
        return checkout
    raise NotFoundError(
        f"{installed} is missing", remedy="install hermesd again: the installation is incomplete"
    )
