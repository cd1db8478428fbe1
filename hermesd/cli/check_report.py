"""How `check` and `plugin check` show what they found: for people as compilers do, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hermesd.errors import Rejection
from hermesd.model.status import PluginStatus
from hermesd.terminal.exit_status import ExitStatus
from hermesd.terminal.screen import Screen

if TYPE_CHECKING:
    from hermesd.config.effective import EffectiveValue
    from hermesd.reload.check import CheckReport


def show_report(screen: Screen, report: CheckReport) -> ExitStatus:
    """Print the report; FAILED when anything was rejected."""
    if screen.as_json:
        screen.document(report_json(report))
    else:
        _show_values(screen, report.config)
        _show_plugins(screen, report.plugins)
        for each in report.rejected:
            show_rejection(screen, "error", each)
        for each in report.warnings:
            show_rejection(screen, "warning", each)
        screen.line(_verdict(report), style="green" if report.ok else "red")
    return ExitStatus.DONE if report.ok else ExitStatus.FAILED


def show_rejection(screen: Screen, kind: str, each: Rejection) -> None:
    """`file:line:column: error: reason`, as editors and CI jump to it, and the remedy below."""
    place = f"{each.place}: " if each.place else ""
    screen.line(f"{place}{kind}: {each.reason}", style="red" if kind == "error" else "yellow")
    if each.remedy:
        screen.line(f"    {each.remedy}")


def report_json(report: CheckReport) -> dict[str, object]:
    """The report with the names of the contract."""
    return {
        "ok": report.ok,
        "rejected": _rejections_json(report.rejected),
        "warnings": _rejections_json(report.warnings),
        "plugins": [_plugin_json(each) for each in report.plugins],
        "config": [
            {"key": each.key, "value": json.loads(each.value_json), "origin": each.origin}
            for each in report.config
        ],
    }


def _show_values(screen: Screen, values: Sequence[EffectiveValue]) -> None:
    if values:
        screen.table(
            ["KEY", "VALUE", "ORIGIN"], [[each.key, each.value_json, each.origin] for each in values]
        )
        screen.line()


def _show_plugins(screen: Screen, plugins: Sequence[PluginStatus]) -> None:
    if plugins:
        screen.table(
            ["PLUGIN", "VERSION", "STATE", "TOOLS", "REASON"],
            [
                [each.name, each.version, each.standing.state, str(len(each.tools)), each.standing.reason]
                for each in plugins
            ],
            state_column=2,
        )
        screen.line()


def _verdict(report: CheckReport) -> str:
    errors, warnings = len(report.rejected), len(report.warnings)
    counted = f"{errors} error{'s' * (errors != 1)}, {warnings} warning{'s' * (warnings != 1)}"
    return ("ok: " if report.ok else "rejected: ") + counted


def _rejections_json(rejections: Iterable[Rejection]) -> list[dict[str, object]]:
    return [
        {
            "name": each.name,
            "file": each.file,
            "line": each.line,
            "column": each.column,
            "reason": each.reason,
            "remedy": each.remedy,
        }
        for each in rejections
    ]


def _plugin_json(each: PluginStatus) -> dict[str, object]:
    return {
        "name": each.name,
        "version": each.version,
        "origin": each.origin,
        "source": each.source,
        "path": each.path,
        "state": str(each.standing.state),
        "reason": each.standing.reason,
        "remedy": each.standing.remedy,
        "since": each.standing.since.isoformat().replace("+00:00", "Z"),
        "digest": each.digest,
        "found_digest": each.found_digest,
        "isolation": each.isolation,
        "tools": list(each.tools),
        "files": list(each.files),
        "permissions": json.loads(each.permissions_json),
        "granted": json.loads(each.granted_json),
    }
