"""What the text of a plugin's code says of its tools: read, never run.

Enough to lint code that nobody trusts yet. What only running it can tell (computed options, tools that a hook
offers, types from elsewhere) is taken to be well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hermesd.errors import Rejection
from hermesd.model.definition import ToolDefinition
from hermesd.plugin.docstring import Docstring, read_docstring

#: Stands where the code computes a text, so that no lint calls it missing.
COMPUTED = "computed by the code when it runs"
_SDK = "hermesd.plugin"
_CONTEXT = "ToolContext"
#: What a bare annotation admits; every other one has a shape as far as the text tells.
_BARE: Mapping[str, Mapping[str, object]] = {"object": {}, "Any": {}, "dict": {"type": "object"}}
_SHAPED: Mapping[str, object] = {"type": "string"}


@dataclass(frozen=True, slots=True)
class Sketch:
    """One tool as its code shows it. `file` is relative to the plugin's root."""

    definition: ToolDefinition
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Outline:
    """The tools of some code, and the files that are no Python."""

    tools: tuple[Sketch, ...] = ()
    faults: tuple[Rejection, ...] = ()


def outline(files: Mapping[str, bytes], plugin: str, version: str) -> Outline:
    """Read the code of a plugin: its .py files by their path within it. Never fails, and runs nothing."""
    tools: list[Sketch] = []
    faults: list[Rejection] = []
    for file, source in sorted(files.items()):
        try:
            tree = ast.parse(source, file)
        except SyntaxError as error:
            reason = f"{type(error).__name__}: {error.msg}"
            line, column = error.lineno or 0, error.offset or 0
            faults.append(Rejection(plugin, reason, "fix the syntax", file, line, column))
        except (ValueError, RecursionError, MemoryError) as error:
            reason = f"cannot be read as Python: {str(error) or type(error).__name__}"
            faults.append(Rejection(plugin, reason, "write it simpler", file))
        else:
            tools.extend(_sketches(tree, file, plugin, version))
    return Outline(tuple(tools), tuple(faults))


def _sketches(tree: ast.Module, file: str, plugin: str, version: str) -> Iterator[Sketch]:
    names = _decorator_names(tree)
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if ast.unparse(called) in names:
                options = decorator.keywords if isinstance(decorator, ast.Call) else []
                yield Sketch(_definition(node, options, plugin, version), file, node.lineno)
                break


def _decorator_names(tree: ast.Module) -> frozenset[str]:
    """How this module may write the decorator `tool`."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            for each in node.names:
                if node.module == _SDK and each.name == "tool":
                    names.add(each.asname or each.name)
                elif node.module == "hermesd" and each.name == "plugin":
                    names.add(f"{each.asname or each.name}.tool")
        elif isinstance(node, ast.Import):
            names.update(f"{each.asname or each.name}.tool" for each in node.names if each.name == _SDK)
    return frozenset(names)


def _definition(
    node: ast.FunctionDef | ast.AsyncFunctionDef, options: list[ast.keyword], plugin: str, version: str
) -> ToolDefinition:
    said = {each.arg: _text(each.value) for each in options if each.arg is not None}
    documented = read_docstring(ast.get_docstring(node))
    name = said.get("name") or node.name
    if name == COMPUTED:
        name = node.name
    if any(each.arg is None for each in options):  # **options: whatever is missing may stand there
        said = {"when_to_use": COMPUTED, "description": COMPUTED, **said}
    guide = next((each.value for each in options if each.arg == "parameter_guide"), None)
    return ToolDefinition(
        name=name if "." in name else f"{plugin}.{name}",
        version=version,
        parameters={"type": "object", "properties": dict(_parameters(node, documented))},
        description=said.get("description") or documented.description,
        when_to_use=said.get("when_to_use", ""),
        parameter_guide=_guide(guide, node),
        returns=_returned(node, documented),
    )


def _parameters(
    node: ast.FunctionDef | ast.AsyncFunctionDef, documented: Docstring
) -> Iterator[tuple[str, Mapping[str, object]]]:
    arguments = node.args
    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        kind, text = _annotation(each.annotation)
        if _is_context(each):
            continue
        schema = _BARE.get(kind.rpartition(".")[2], _SHAPED)
        yield each.arg, {**schema, "description": documented.parameters.get(each.arg) or text}


def _returned(
    node: ast.FunctionDef | ast.AsyncFunctionDef, documented: Docstring
) -> Mapping[str, object] | None:
    kind, text = _annotation(node.returns)
    bare = _BARE.get(kind.rpartition(".")[2])
    return None if bare is None else {**bare, "description": documented.returns or text}


def _annotation(node: ast.expr | None) -> tuple[str, str]:
    """(the type as it is written, the text that Annotated gives it)."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            node = ast.parse(node.value, mode="eval").body
        except SyntaxError:
            return COMPUTED, ""
    if not isinstance(node, ast.Subscript) or not ast.unparse(node.value).endswith("Annotated"):
        return (ast.unparse(node) if node is not None else ""), ""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    texts = [_text(each) for each in parts[1:]]
    return ast.unparse(parts[0]), max(texts, key=len, default="")


def _guide(node: ast.expr | None, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Mapping[str, str]:
    if node is None:
        return {}
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {_text(key): _text(value) for key, value in pairs if key is not None}
    arguments = (*function.args.args, *function.args.kwonlyargs)
    return {each.arg: COMPUTED for each in arguments if not _is_context(each)}


def _is_context(argument: ast.arg) -> bool:
    return _annotation(argument.annotation)[0].rpartition(".")[2] == _CONTEXT


def _text(node: ast.expr) -> str:
    if not isinstance(node, ast.Constant):
        return COMPUTED
    return node.value if isinstance(node.value, str) else ""
