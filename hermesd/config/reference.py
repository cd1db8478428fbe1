"""`docs/configuration.md`, from the table: what the program reads and what the page says cannot differ."""

from __future__ import annotations

import json
from collections.abc import Iterator

from hermesd.config.key import Key, Table
from hermesd.config.table import TABLE

_HEAD = """# Configuration reference

<!-- Rendered from the table of keys by tools/render_docs.py; edit hermesd/config/table.py instead. -->

`hermesd.yaml` is found at `--config`, else `HERMESD_CONFIG`, else in `/etc/hermesd` (root) or
`$XDG_CONFIG_HOME/hermesd`; a name may end in `.yaml`, `.yml` or `.json`. Without a file the
built-in defaults hold. `hermesd check --config FILE` reads a file as the daemon would, and
`--effective` shows every value in force with where it came from.

## Writing values

- `${NAME}` takes an environment variable, `${NAME:-default}` gives a default for one that is unset
  or empty, `${file:PATH}` takes a file's content without its last line end, `$${` stands for `${`.
  A variable or file that is missing is an error. Inside `[...]` and `{...}` YAML wants the
  reference in quotes. Text put in for a number or for true/false is converted; in free-form values,
  such as settings of plugins, a reference without quotes is read as if its value stood there, and
  one in quotes stays a text.
- Relative paths are relative to the file that holds them; `~` is not expanded.
- `yes`, `no`, `on`, `off`, `22:22`, `0777` and `1_000` without quotes are refused, because readers
  of YAML disagree about them: write `true` or `false`, or put the text in quotes. Versions need
  quotes too: `"1.10"`.
- Tabs for indentation, a key that stands twice, merge keys (`<<`), tags, and several documents in
  one file are refused. Aliases work, within bounds. A file may be 1 MiB large and nest 64 levels
  deep.
- `include` reads more files. Sections grow together; a value, or a name such as a plugin under
  `plugins.trusted`, may stand in one file only. Lists marked *joined* are put one after the other.
- Values of `secrets`, of `${file:…}` and of names that speak of tokens, passwords or keys are
  masked wherever they are shown, and enter the configuration's digest as a hash.

**Reload** says what happens to a changed value: *live* is applied by the next reload; *restart* is
reported by the reload and takes effect when the daemon starts again.
"""

#: Has the keys of mcp_servers, which stand in the page once.
OTHER_NAME = "mcpServers"

_LATER_HEAD = """
## Keys for later builds

These are read and checked, so that a file written for a later build keeps working, and named in a
warning: they have no effect yet.
"""


def render(table: Table = TABLE) -> str:
    """The whole page, as it must stand in docs/configuration.md."""
    now = [row for row in table.rows if not row.deferred]
    later = [row for row in table.rows if row.deferred]
    return _HEAD + "".join(_sections(now)) + _LATER_HEAD + "".join(_sections(later, level="###"))


def _sections(rows: list[Key], level: str = "##") -> Iterator[str]:
    by_top: dict[str, list[Key]] = {}
    for row in rows:
        by_top.setdefault(row.path.partition(".")[0], []).append(row)
    for top, members in by_top.items():
        yield f"\n{level} `{top}`\n"
        if members[0].path == top and members[0].kind is None:
            yield f"\n{members[0].doc}\n"
        if top == OTHER_NAME:
            continue
        yield "\n| key | value | default | reload | what it does |\n|---|---|---|---|---|\n"
        yield from (_row(row) for row in members if row.kind is not None)


def _row(row: Key) -> str:
    kind = row.kind.label if row.kind else ""
    what = row.doc + (" *Joined.*" if row.joins else "") + (" *Masked.*" if row.secret else "")
    cells = (f"`{row.path}`", kind, _default(row), row.reload, what)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _default(row: Key) -> str:
    if row.shown:
        return f"`{row.shown}`" if row.deferred else row.shown
    if row.default is None:
        return ""
    value = list(row.default) if isinstance(row.default, tuple) else row.default
    return f"`{json.dumps(value)}`"
