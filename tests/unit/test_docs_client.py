"""The page of the Python client names all that a client can do, and nothing that it cannot."""

from __future__ import annotations

import re

import pytest

from hermesd.client import AsyncClient, CallResult, Client
from tests.harness import ROOT

PAGE = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.promise("DOC-8")
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_every_method_of_a_client_is_on_the_page(kind: type) -> None:
    named = set(re.findall(r"`(\w+)(?:\([^`]*\))?`", PAGE))
    assert public(kind) - named == set()
    called = set(re.findall(r"`(\w+)\([^`]*\)`", PAGE))
    assert called - public(kind) == {"Tls"} & called


@pytest.mark.promise("DOC-8")
def test_every_field_of_a_result_is_on_the_page() -> None:
    assert {name for name in public(CallResult) if f"`{name}`" not in PAGE} <= {"raise_for_error", "response"}


@pytest.mark.promise("DOC-8")
def test_the_python_of_the_page_compiles() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert blocks
    for block in blocks:
        compile(block, "docs/client.md", "exec")
