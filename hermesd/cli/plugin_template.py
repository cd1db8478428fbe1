"""What `hermesd plugin new` writes: a plugin that its author changes rather than writes."""

from __future__ import annotations

from string import Template

from hermesd.cli.scaffold import NewFile

_MANIFEST = Template("""\
# What the daemon reads before it runs anything of this plugin. Nothing is expanded here: ${open}…} works in
# hermesd.yaml alone.
name: $name
version: 0.1.0
requires_hermesd: ">=0.1"
api: 1
entry: $module.py

# What the operator may set under plugins.settings.$name; the code reads ctx.settings.
settings:
  type: object
  properties:
    ending: {type: string, maxLength: 3, description: what a greeting ends with}
  additionalProperties: false

# What the code may do once the operator has granted it. Ask for as little as possible.
#permissions:
#  network: ["api.example.com:443"]
#  secrets: [EXAMPLE_TOKEN]     # read with ctx.secret("EXAMPLE_TOKEN"); hermesd.yaml holds the value
#  calls: ["text.*"]
""")

_CODE = Template('''\
"""Tools of the $name plugin.

A tool does one thing and is named after it: verb_object. A model knows nothing but what stands here: say
when to use a tool and when not, and for every parameter where its value comes from, which form it has and
what to do when it is missing.
"""

from typing import Annotated, Literal, TypedDict

from hermesd.plugin import ToolContext, ToolError, tool


class Greeting(TypedDict):
    """What make_greeting answers. Named fields tell a model what it will get."""

    text: str
    language: str


@tool(
    side_effects="none",
    idempotent=True,
    when_to_use="The user asks for somebody to be greeted, or wants to see that the $name plugin works.",
    when_not_to_use="The user greets you: answer yourself.",
    examples=[{"user_says": "Say hello to Ada", "arguments": {"name": "Ada"}}],
)
def make_greeting(
    ctx: ToolContext,
    name: Annotated[str, "who is greeted, as the user wrote it; ask the user when it is missing"],
    language: Annotated[
        Literal["en", "zh"], "language of the greeting; leave it out for English"
    ] = "en",
) -> Greeting:
    """Make a short greeting for somebody."""
    if not name.strip():
        # The code and the message reach the model; say what it should do next.
        raise ToolError("the name is blank: ask the user who is to be greeted")
    ctx.log.info("greeting", language=language)
    hello = "你好，" if language == "zh" else "Hello, "
    return {"text": hello + name.strip() + str(ctx.settings.get("ending", "!")), "language": language}
''')

_TEST = Template('''\
"""Tests of the $name plugin: they need no daemon. Run them with pytest."""

from pathlib import Path

import pytest

from hermesd.plugin import ToolError
from hermesd.plugin.testing import call, load

make_greeting = load(Path(__file__).parent).make_greeting


def test_a_greeting_names_whom_it_greets():
    assert call(make_greeting, name="Ada") == {"text": "Hello, Ada!", "language": "en"}


def test_a_greeting_can_be_chinese():
    assert call(make_greeting, name="小明", language="zh")["text"] == "你好，小明!"


def test_the_operator_decides_how_a_greeting_ends():
    assert call(make_greeting, {"settings": {"ending": "."}}, name="Ada")["text"] == "Hello, Ada."


def test_a_blank_name_is_refused_with_what_to_do():
    with pytest.raises(ToolError, match="ask the user"):
        call(make_greeting, name=" ")
''')


def module_of(name: str) -> str:
    """The Python module that holds a plugin's tools: its name, importable."""
    return name.replace("-", "_")


def plugin_files(name: str) -> dict[str, NewFile]:
    """The files of a new plugin called `name`, which must be a plugin name."""
    words = {"name": name, "module": module_of(name), "open": "${"}
    return {
        "plugin.yaml": NewFile(_MANIFEST.substitute(words)),
        f"{module_of(name)}.py": NewFile(_CODE.substitute(words)),
        f"test_{module_of(name)}.py": NewFile(_TEST.substitute(words)),
    }
