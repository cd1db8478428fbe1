"""What a caller may hear of the machine that the daemon runs on."""

from __future__ import annotations

from hermesd.errors import StoreError
from hermesd.model.call import Caller


def disclosed(error: StoreError, caller: Caller) -> StoreError:
    """The error as `caller` may read it: paths and what is wrong with the disk are the operator's to know.

    The operator has them from events and `status`, whoever met them first.
    """
    if caller.principal.kind == "operator":
        return error
    return StoreError("the daemon's store does not answer", remedy="try again later, or ask the operator")
