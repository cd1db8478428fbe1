"""Names of tools, plugins, agents, calls and confirmations for the shell: quickly, or not at all."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from hermesd.ctl.connection import names

#: A shell waits for this long at most; a person has pressed Tab.
TIMEOUT_S = 0.2


def complete_tool(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of tools that begin with what was typed; none when no daemon answers in time."""
    return _matching(names(ctx, "tools", TIMEOUT_S), incomplete)


def complete_plugin(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of plugins that begin with what was typed; none when no daemon answers in time."""
    return _matching(names(ctx, "plugins", TIMEOUT_S), incomplete)


def complete_confirmation(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Ids of calls that wait for agreement; none when no daemon answers in time."""
    return _matching(names(ctx, "confirmations", TIMEOUT_S), incomplete)


def complete_agent(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of agents; none when no daemon answers in time."""
    return _matching(names(ctx, "agents", TIMEOUT_S), incomplete)


def complete_call(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Ids of the last calls, those in flight first; none when no daemon answers in time."""
    return _matching(names(ctx, "calls", TIMEOUT_S), incomplete)


def complete_call_in_flight(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Ids of calls that go on; none when no daemon answers in time."""
    return _matching(names(ctx, "calls in flight", TIMEOUT_S), incomplete)


def _matching(known: list[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in known if name.startswith(incomplete)]
