"""What a plugin offers: what its code has, and what its manifest says of it."""

from __future__ import annotations

from hermesd.errors import PluginError, Rejection
from hermesd.runtimes.runtime import Prepared
from hermesd.runtimes.spec import PluginSpec


def offered(spec: PluginSpec, prepared: Prepared) -> Prepared:
    """What the manifest says about a tool wins over the code; what it does not name is not offered.

    Raises PluginError when the manifest names a tool that the code does not have.
    """
    if spec.tools is None:
        return prepared
    known = {str(tool["name"]): tool for tool in prepared.tools}
    missing = [str(tool.get("name")) for tool in spec.tools if tool.get("name") not in known]
    if missing:
        remedy = f"the code has {', '.join(sorted(known)) or 'none'}"
        raise PluginError(
            [
                Rejection(
                    spec.name,
                    f"the manifest names the tool {name!r}, which the code does not have",
                    remedy,
                    "plugin.yaml",
                )
                for name in missing
            ]
        )
    tools = tuple({**known[str(tool["name"])], **tool} for tool in spec.tools)
    return Prepared(tools, prepared.places)
