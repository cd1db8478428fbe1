"""`hermesd completion`: the script that makes a shell complete commands, flags, tools and plugins."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command(
    help="""Print a completion script for SHELL.

\b
bash:  source <(hermesd completion bash)                 # in ~/.bashrc
zsh:   source <(hermesd completion zsh)                  # in ~/.zshrc, after compinit
fish:  hermesd completion fish > ~/.config/fish/completions/hermesd.fish

Names of tools, plugins and agents, and ids of calls, come from the running daemon, when there is one.""",
    short_help="Print a shell completion script.",
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """The script is the same for every version of hermesd: it asks the installed one each time."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"this click knows no completion for {shell}")
    script = kind(ctx.find_root().command, {}, "hermesd", "_HERMESD_COMPLETE")
    # The base class's source: that of bash starts a bash to ask for its version.
    click.echo(ShellComplete.source(script), nl=False)
