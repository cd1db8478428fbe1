"""What plugin authors import: the standard library alone, so that a plugin runs in a bare container too."""

from hermesd.plugin.content import Content, Image, ResourceLink, Text
from hermesd.plugin.context import PluginContext, ToolContext
from hermesd.plugin.fault import ToolCallError, ToolError
from hermesd.plugin.hook import hookimpl
from hermesd.plugin.limit import Limits
from hermesd.plugin.tool import tool

__all__ = [
    "Content", "Image", "Limits", "PluginContext", "ResourceLink", "Text", "ToolCallError", "ToolContext",
    "ToolError", "hookimpl", "tool",
]  # fmt: skip
