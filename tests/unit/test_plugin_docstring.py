"""Docstrings in the styles that people write."""

from __future__ import annotations

import pytest

from hermesd.plugin.docstring import read_docstring

GOOGLE = """Ask for the state of an order.

    It may be
    delayed.

    Args:
        order_id (str): the complete number,
            with its prefix: A-1
        tail (str, optional): the end
        **more: anything: else

    Returns:
        dict: what is known

    Raises:
        ToolError: when there is none
"""
NUMPY = """
    Ask for the state of an order.

    It may be
    delayed.

    Parameters
    ----------
    order_id : str
        the complete number,
        with its prefix: A-1
    tail : str, optional
        the end
    a, b : int
        both
    **more
        anything: else

    Returns
    -------
    dict: what is known

    Notes
    -----
    None.
"""
SPHINX = """Ask for the state of an order.

    It may be
    delayed.

    :param str order_id: the complete number,
        with its prefix: A-1
    :param tail: the end
    :type tail: str
    :param more: anything: else
    :returns: dict: what is known
    :raises ToolError: when there is none
"""


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_each_style_gives_the_same(text: str) -> None:
    read = read_docstring(text)
    assert read.description == "Ask for the state of an order.\n\nIt may be delayed."
    both = {"a": "both", "b": "both"} if "a, b" in text else {}
    assert read.parameters == {
        "order_id": "the complete number, with its prefix: A-1",
        "tail": "the end",
        "more": "anything: else",
        **both,
    }
    assert read.returns == "dict: what is known"


def test_chinese_headings_and_colons_are_known() -> None:
    read = read_docstring(
        "查询订单。\n\n参数：\n    订单号（字符串）：完整的号码\n    n: 数量\n\n返回：\n    状态\n"
    )
    assert read == ("查询订单。", {"订单号": "完整的号码", "n": "数量"}, "状态")


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_no_docstring_says_nothing(text: str | None) -> None:
    assert read_docstring(text) == ("", {}, "")


def test_what_is_no_section_is_description() -> None:
    read = read_docstring("Do it.\n\nFor instance:\n    like this\n\nArguments matter: they do.")
    assert read.description == "Do it.\n\nFor instance: like this\n\nArguments matter: they do."
    assert read.parameters == {}


@pytest.mark.parametrize(
    "text", ["Args:", "Args:\n    only text", "Parameters\n----------", ":param:", ":param x", "Args:\n\n\n"]
)
def test_a_broken_section_breaks_nothing(text: str) -> None:
    assert read_docstring(text).parameters == {}
