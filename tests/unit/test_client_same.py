"""The two clients say the same: apart from `async` and `await` their methods are equal (decision 0092)."""

from __future__ import annotations

import ast
from pathlib import Path

from hermesd.client import administration, async_administration, async_client, client

NAMES = {"AsyncIterator": "Iterator", "AsyncClient": "Client"}
PAIRS = ((client, async_client), (administration, async_administration))


class Blocking(ast.NodeTransformer):
    """Turns asynchronous code into the blocking code that it mirrors."""

    def visit_Await(self, node: ast.Await) -> ast.AST:
        return self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(NAMES.get(node.id, node.id), node.ctx)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return ast.FunctionDef(**dict(ast.iter_fields(self.generic_visit(node))))

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        return ast.For(**dict(ast.iter_fields(self.generic_visit(node))))

    def visit_For(self, node: ast.For) -> ast.AST:
        """`for each in all: yield each`: an asynchronous generator knows no `yield from`."""
        self.generic_visit(node)
        match node.body:
            case [ast.Expr(ast.Yield(ast.Name(name)))] if ast.Name(name, ast.Store()).id == node.target.id:
                return ast.Expr(ast.YieldFrom(node.iter))
        return node


def methods(module: object, *, blocking: bool) -> dict[str, str]:
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    tree = tree if blocking else Blocking().visit(tree)
    [found] = [each for each in tree.body if isinstance(each, ast.ClassDef)]
    functions = [each for each in found.body if isinstance(each, ast.FunctionDef)]
    return {each.name: ast.dump(each) for each in functions if not each.name.startswith("_")}


def test_every_public_method_is_the_same_in_both_clients() -> None:
    found = 0
    for one, other in PAIRS:
        assert methods(one, blocking=True) == methods(other, blocking=False)
        found += len(methods(one, blocking=True))
    assert found > 35
