"""What passes need of the rest of the daemon: where plans come from, and who hears of what passes do."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from typing import Protocol

from hermesd.model.status import ReloadReport
from hermesd.reload.goal import Plan, Run
from hermesd.reload.preparation import Made


class Reading(Protocol):
    """Where plans come from and where it is written down what served."""

    def read(self, *, patient: bool) -> Awaitable[Plan]:
        """Read the configuration and every source. Never raises for their faults: the plan lists them.

        What is being written just now stays as it was; with `patient` it is waited for, bounded.
        """
        ...

    def record(self, served: Iterable[Run], in_use: Iterable[str]) -> Awaitable[None]:
        """Write down what is about to serve, before it does, and let go of contents that nobody needs.

        `in_use` are digests that instances still run from. Raises StoreError.
        """
        ...


class Listener(Protocol):
    """Who hears of what passes do: the policy of calls, events, metrics."""

    def planned(self, plan: Plan) -> None:
        """This plan is in force from now on."""
        ...

    def committed(self, made: Mapping[str, Made], gone: Iterable[str]) -> None:
        """These preparations have ended, well or not, and these plugins are gone."""
        ...

    def tell(self, kind: str, subject: str, message: str = "", /, **fields: object) -> object: ...

    def reloaded(self, report: ReloadReport, cause: str) -> None: ...
