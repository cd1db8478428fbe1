"""Loading a plugin's folder: isolation by content, and containment of whatever its code does at import."""

from __future__ import annotations

import gc
import importlib.resources
import linecache
import logging
import os
import py_compile
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from hermesd.plugin.bind import bind_tools
from hermesd.plugin.fault import LoadFault
from hermesd.plugin.load import load_package, package_name, unload_package


@pytest.fixture(autouse=True)
def _nothing_stays_loaded() -> Iterator[None]:
    yield
    left = [name for name in sys.modules if name.startswith("hermesd_plugins.")]
    for name in left:
        unload_package(".".join(name.split(".")[:2]))
    assert not [name for name in sys.modules if name.startswith("hermesd_plugins.")]


def plugin(root: Path, **files: str) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = root / (name.replace("__", "/") + ".py" if not name.endswith("init") else "__init__.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def modules_of(package: str) -> list[str]:
    return [name for name in sys.modules if name == package or name.startswith(package + ".")]


def fault_of_loading(
    root: Path, entry: str = "main.py", package: str = "hermesd_plugins.p_000000000000"
) -> LoadFault:
    with pytest.raises(LoadFault) as caught:
        load_package(root, entry, package)
    assert modules_of(package) == []
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return caught.value


def test_the_package_name_is_unique_to_plugin_and_content() -> None:
    digest = "sha256:1a2b3c4d5e6f7788"
    assert package_name("orders", digest) == "hermesd_plugins.orders_1a2b3c4d5e6f"
    assert package_name("a-b", digest) != package_name("a_b", digest)


def test_the_folder_is_a_package_with_and_without_init(tmp_path: Path) -> None:
    bare = plugin(
        tmp_path / "a",
        main="from . import near\nfrom .deep.down import VALUE\nBOTH = near.VALUE + VALUE",
        near="VALUE = 1",
    )
    plugin(bare / "deep", down="VALUE = 2")
    assert load_package(bare, "main.py", "hermesd_plugins.a_1").BOTH == 3
    whole = plugin(tmp_path / "b", init="START = 'init'", main="from . import START")
    assert load_package(whole, "main.py", "hermesd_plugins.b_1").START == "init"
    assert load_package(whole, "__init__.py", "hermesd_plugins.b_1").START == "init"
    unload_package("hermesd_plugins.b_1")


def test_an_entry_in_a_subfolder_and_with_dashes_and_chinese_names_loads(tmp_path: Path) -> None:
    root = plugin(
        tmp_path / "插件", **{"工具__my-tool": "from . import 邻居\nX = 邻居.值", "工具__邻居": "值 = '好'"}
    )
    assert load_package(root, "工具/my-tool.py", "hermesd_plugins.a-b_1").X == "好"


@pytest.mark.promise("SDK-1")
def test_two_contents_of_one_plugin_stay_apart_also_for_what_they_import_later(tmp_path: Path) -> None:
    """Measured: a generation loaded before an edit answered with the new helper."""
    code = "def answer():\n    from . import helper\n    from .deep import more\n    return helper.V, more.V"
    one = plugin(tmp_path / "1", main=code, helper="V = 1", deep__more="V = 1")
    two = plugin(tmp_path / "2", main=code, helper="V = 2", deep__more="V = 2")
    first = load_package(one, "main.py", "hermesd_plugins.o_1")
    second = load_package(two, "main.py", "hermesd_plugins.o_2")
    assert second.answer() == (2, 2)
    assert first.answer() == (1, 1)


@pytest.mark.promise("SDK-2")
def test_byte_code_is_neither_read_nor_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """cpython#75953, #120932: an edit within the same second and of the same size loaded stale byte code."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    root = plugin(tmp_path / "p", main="from . import helper\nV = 1", helper="V = 1")
    for value in range(10):
        for name in ("main", "helper"):
            path = root / f"{name}.py"
            path.write_text(path.read_text().replace(f"V = {value - 1}", f"V = {value}"))
            path.write_text(
                path.read_text().replace("V = 1", f"V = {value}") if value == 0 else path.read_text()
            )
            os.utime(path, (1_000_000_000, 1_000_000_000))
        module = load_package(root, "main.py", "hermesd_plugins.p_1")
        assert (value, value) == (module.V, module.helper.V)
        unload_package("hermesd_plugins.p_1")
    assert not list(root.rglob("*.pyc"))


def test_stale_byte_code_that_lies_there_is_not_used(tmp_path: Path) -> None:
    root = plugin(tmp_path / "p", main="V = 1")
    path = root / "main.py"
    os.utime(path, (1_000_000_000, 1_000_000_000))
    py_compile.compile(str(path))
    path.write_text("V = 2")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    assert load_package(root, "main.py", "hermesd_plugins.p_1").V == 2


def test_data_files_come_from_the_same_folder(tmp_path: Path) -> None:
    root = plugin(
        tmp_path / "p", main="import importlib.resources\nHERE = __file__\nPACKAGE = __package__", init=""
    )
    (root / "数据.txt").write_text("内容", encoding="utf-8")
    module = load_package(root, "main.py", "hermesd_plugins.p_1")
    assert Path(module.HERE).parent == root
    assert (importlib.resources.files(module.PACKAGE) / "数据.txt").read_text(encoding="utf-8") == "内容"


def test_data_files_are_found_in_a_folder_without_init(tmp_path: Path) -> None:
    root = plugin(tmp_path / "p", main="PACKAGE = __package__")
    (root / "data.txt").write_text("x")
    module = load_package(root, "main.py", "hermesd_plugins.p_1")
    assert (importlib.resources.files(module.PACKAGE) / "data.txt").read_text() == "x"


def test_equal_content_gives_the_same_module_object_until_the_last_holder_leaves(tmp_path: Path) -> None:
    root = plugin(
        tmp_path / "p", main="def late():\n    from . import helper\n    return helper.V", helper="V = 1"
    )
    first = load_package(root, "main.py", "hermesd_plugins.p_1")
    assert load_package(root, "main.py", "hermesd_plugins.p_1") is first
    unload_package("hermesd_plugins.p_1")
    assert first.late() == 1
    unload_package("hermesd_plugins.p_1")
    assert modules_of("hermesd_plugins.p_1") == []
    unload_package("hermesd_plugins.p_1")


def test_a_failed_load_does_not_take_the_package_from_others_that_hold_it(tmp_path: Path) -> None:
    root = plugin(tmp_path / "p", main="V = 1", bad="raise ValueError('no')")
    good = load_package(root, "main.py", "hermesd_plugins.p_1")
    with pytest.raises(LoadFault):
        load_package(root, "bad.py", "hermesd_plugins.p_1")
    assert sys.modules["hermesd_plugins.p_1.main"] is good


@pytest.mark.promise("SDK-11")
def test_unloading_forgets_modules_loggers_and_lines(tmp_path: Path) -> None:
    """caddy#2358, #2642: something leaked with each reload."""
    root = plugin(
        tmp_path / "p",
        main="import logging, linecache\nlog = logging.getLogger(__name__)\n"
        "linecache.getline(__file__, 1)\nclass Big: pass",
    )
    before = set(logging.root.manager.loggerDict)
    module = load_package(root, "main.py", "hermesd_plugins.p_1")
    gone = weakref.ref(module.Big)
    del module
    unload_package("hermesd_plugins.p_1")
    gc.collect()
    assert gone() is None
    assert not [each for each in set(logging.root.manager.loggerDict) - before if "p_1" in each]
    assert not [each for each in linecache.cache if str(root) in each]
    assert not hasattr(sys.modules["hermesd_plugins"], "p_1")


@pytest.mark.promise("SDK-3")
@pytest.mark.parametrize(
    ("code", "line", "reason"),
    [
        ("x = 1\ndef f(:\n  pass", 2, "SyntaxError"),
        ("x = 1\n\nraise ValueError('坏了')", 3, "ValueError: 坏了"),
        ("import sys\nsys.exit(3)", 2, "exit"),
        ("raise SystemExit", 1, "exit"),
        ("raise KeyboardInterrupt", 1, "KeyboardInterrupt"),
        ("\nraise BaseException('all')", 2, "BaseException: all"),
        ("class E(Exception):\n    def __str__(self): raise RuntimeError\nraise E()", 3, "its text failed"),
        ("def f():\n    f()\nf()", 2, "RecursionError"),
        ("\timport os\n  x", 1, "IndentationError"),
        ("import nothing_has_this_name", 1, "ModuleNotFoundError"),
        ("import asyncio\nraise asyncio.CancelledError", 2, "CancelledError"),
        ("x = '\x00'", 0, ""),
    ],
)
def test_whatever_a_module_does_at_import_is_told_with_its_line(
    tmp_path: Path, code: str, line: int, reason: str
) -> None:
    fault = fault_of_loading(plugin(tmp_path / "p", main=code))
    assert reason in fault.reason
    if line:
        assert (fault.file, fault.line) == ("main.py", line)
    assert fault.remedy


def test_a_syntax_error_has_its_column_and_the_file_that_it_is_in(tmp_path: Path) -> None:
    fault = fault_of_loading(plugin(tmp_path / "p", main="from . import helper", helper="x = 1\ny = (1,\n"))
    assert (fault.file, fault.line) == ("helper.py", 2)
    assert fault.column == 5
    assert str(fault).startswith("helper.py:2:5: SyntaxError")


def test_an_exception_in_a_library_is_placed_at_the_plugins_own_line(tmp_path: Path) -> None:
    fault = fault_of_loading(
        plugin(tmp_path / "p", main="from .deep import parse", deep="import json\n\nparse = json.loads('{')")
    )
    assert (fault.file, fault.line) == ("deep.py", 3)
    assert "json" in fault.trace


def test_an_absolute_import_of_a_sibling_says_what_to_write(tmp_path: Path) -> None:
    fault = fault_of_loading(plugin(tmp_path / "p", main="import os\nimport helpers", helpers="X = 1"))
    assert "from . import helpers" in fault.remedy
    assert fault.line == 2


@pytest.mark.parametrize("entry", ["", "missing.py", "../main.py", "/etc/passwd", "two.dots.py"])
def test_an_entry_that_is_no_file_of_the_folder_is_refused(tmp_path: Path, entry: str) -> None:
    root = plugin(tmp_path / "p", main="")
    (root / "two.dots.py").write_text("")
    plugin(tmp_path, main="X = 'outside'")
    assert "entry" in fault_of_loading(root, entry).reason


def test_a_load_that_failed_can_succeed_later(tmp_path: Path) -> None:
    root = plugin(tmp_path / "p", main="from . import helper", helper="raise ValueError")
    fault_of_loading(root)
    (root / "helper.py").write_text("X = 1")
    assert load_package(root, "main.py", "hermesd_plugins.p_000000000000").helper.X == 1


@pytest.mark.promise("SDK-4")
def test_a_slow_import_blocks_no_other_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HA core#113169, dify-plugin-daemon#336: one plugin that is never ready blocked the others."""
    gate = SimpleNamespace(entered=threading.Event(), leave=threading.Event())
    monkeypatch.setitem(sys.modules, "hermesd_test_gate", gate)
    slow = plugin(
        tmp_path / "s",
        main="import hermesd_test_gate as g\ng.entered.set()\ng.leave.wait(30)\nfrom . import late",
        late="V = 1",
    )
    quick = plugin(tmp_path / "q", main="from . import near\nV = 2", near="")
    loaded: list[object] = []
    thread = threading.Thread(
        target=lambda: loaded.append(load_package(slow, "main.py", "hermesd_plugins.s_1"))
    )
    thread.start()
    try:
        assert gate.entered.wait(10)
        done = threading.Thread(
            target=lambda: loaded.append(load_package(quick, "main.py", "hermesd_plugins.q_1"))
        )
        done.start()
        done.join(10)
        assert not done.is_alive()
        unload_package("hermesd_plugins.q_1")
    finally:
        gate.leave.set()
        thread.join(10)
    assert len(loaded) == 2


def test_one_package_loaded_by_many_threads_at_once_is_imported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = SimpleNamespace(count=0)
    monkeypatch.setitem(sys.modules, "hermesd_test_counter", counter)
    root = plugin(tmp_path / "p", main="import hermesd_test_counter as c\nc.count += 1")
    loaded: list[object] = []
    threads = [
        threading.Thread(target=lambda: loaded.append(load_package(root, "main.py", "hermesd_plugins.p_1")))
        for _ in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(10)
    assert counter.count == 1
    assert len({id(each) for each in loaded}) == 1
    for _ in loaded:
        unload_package("hermesd_plugins.p_1")


def test_a_name_that_package_name_did_not_make_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="package_name"):
        load_package(tmp_path, "main.py", "os.path")


def test_other_imports_are_left_alone(tmp_path: Path) -> None:
    load_package(plugin(tmp_path / "p", main="json = 1\nimport decimal"), "main.py", "hermesd_plugins.p_1")
    with pytest.raises(ModuleNotFoundError):
        __import__("hermesd_plugins.unknown_1")
    assert hasattr(__import__("json"), "loads")


@pytest.mark.promise("SDK-11")
def test_two_hundred_reloads_keep_nothing(tmp_path: Path) -> None:
    """caddy#2358, #2642, #7826; measured: typing's caches kept the classes of the last 128 contents."""
    code = (
        "from __future__ import annotations\nimport logging, pkgutil\nfrom dataclasses import dataclass\n"
        "from typing import Annotated, Optional\nfrom hermesd.plugin import tool\n"
        "log = logging.getLogger(__name__)\nFOUND = list(pkgutil.iter_modules(__import__(__package__, "
        "fromlist=['x']).__path__))\n@dataclass\nclass T:\n    a: Optional[T] = None\n"
        "@tool\ndef f(t: Annotated[Optional[T], 'x']) -> list[Optional[T]]: ...\n"
    )
    root = plugin(tmp_path / "p", main=code)
    classes = []

    def load_and_unload(number: int) -> None:
        package = package_name("p", f"{number:012x}")
        module = load_package(root, "main.py", package)
        assert len(bind_tools(module, "p")) == 1
        classes.append(weakref.ref(module.T))
        unload_package(package)

    load_and_unload(0)
    modules, finders = len(sys.modules), len(sys.path_importer_cache)
    loggers = len(logging.root.manager.loggerDict)
    for number in range(1, 200):
        load_and_unload(number)
    gc.collect()
    assert len(sys.modules) == modules
    assert len(sys.path_importer_cache) == finders
    assert len(logging.root.manager.loggerDict) == loggers
    assert sum(each() is not None for each in classes) == 0
