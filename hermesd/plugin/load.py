"""Load a plugin's folder as a package of its own, from source, under a name unique to its content.

Guarantees: byte code is neither read nor written (an edit within the same second and of the same size once
loaded stale byte code 50 times in 50); modules imported later, and data files, come from the same folder;
two contents of one plugin live side by side; a load that fails leaves nothing in `sys.modules`; loads of
different plugins do not wait for each other, because nothing of ours is locked while plugin code runs
except a lock of that package alone.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from hermesd.plugin.fault import LoadFault

NAMESPACE = "hermesd_plugins"
_PREFIX = NAMESPACE + "."
_DIGEST_CHARS = 12


def package_name(plugin: str, digest: str) -> str:
    """`hermesd_plugins.orders_1a2b3c4d5e6f`: two contents of one plugin never share a name.

    The plugin's name stays as it is, dashes included: `a-b` and `a_b` must not meet.
    """
    return f"{_PREFIX}{plugin}_{digest.rpartition(':')[2][:_DIGEST_CHARS]}"


class _Loaded:
    """One package: its folder, how many hold it, and the lock under which it is imported."""

    __slots__ = ("holders", "lock", "root")

    def __init__(self, root: Path) -> None:
        self.root = root
        self.holders = 0
        self.lock = threading.Lock()


class _SourceLoader(SourceFileLoader):
    """Compiles the source each time; `__pycache__` is neither looked at nor made."""

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        data = self.get_data(path)
        if (found := data.find(b"\0")) >= 0:
            # Python itself tells neither file nor line of this one.
            place = (path, data.count(b"\n", 0, found) + 1, None, None)
            raise SyntaxError("the source holds a null byte", place)
        return self.source_to_code(data, path)

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        """Never write: the folder is not ours, and read-only."""


class _FolderLoader(_SourceLoader):
    """A folder without `__init__.py`: an empty module that still finds its data files."""

    def get_code(self, fullname: str) -> CodeType | None:
        return compile("", self.path, "exec")


class _Finder:
    """Finds modules below `hermesd_plugins.` in the folder of their package, and nothing else."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not fullname.startswith(_PREFIX):
            return None
        head, *below = fullname.removeprefix(_PREFIX).split(".")
        loaded = _registry.get(_PREFIX + head)
        if loaded is None:
            return None
        folder = loaded.root.joinpath(*below)
        if os.path.isfile(folder / "__init__.py"):
            return _package_spec(fullname, folder, folder / "__init__.py")
        if below and os.path.isfile(source := folder.with_name(folder.name + ".py")):
            return spec_from_file_location(fullname, source, loader=_SourceLoader(fullname, str(source)))
        return _package_spec(fullname, folder, None) if os.path.isdir(folder) else None


_registry: dict[str, _Loaded] = {}
_registry_lock = threading.Lock()
_finder = _Finder()


def load_package(root: Path, entry: str, package: str) -> ModuleType:
    """Import `entry` (a path below `root`, such as "orders.py") as a module of `package`; return the module.

    The folder itself is the package, with or without `__init__.py`. The same package loaded again is the
    same module object, held once more. Raises LoadFault, whatever the plugin's code does at import.
    """
    loaded = _hold(Path(root), package)
    with loaded.lock:
        try:
            module = importlib.import_module(_module_name(loaded.root, entry, package))
        except BaseException as error:  # noqa: BLE001 - SystemExit at import must not end the host
            fault: LoadFault = error if isinstance(error, LoadFault) else fault_of(error, loaded.root)
        else:
            return module
    # Outside of the handler: the fault must not keep the frames, and so the module, of the failure alive.
    _release(package)
    fault.__context__ = None
    raise fault


def unload_package(package: str) -> None:
    """Give a loaded package back; with the last holder its modules leave `sys.modules`. Idempotent."""
    _release(package)


def relative_file(file: str, module: str) -> str:
    """`file` relative to the folder of the plugin that `module` belongs to; else unchanged."""
    if not module.startswith(_PREFIX):
        return file
    loaded = _registry.get(".".join(module.split(".")[:2]))
    return _within(file, loaded.root) or file if loaded else file


def module_root(module: ModuleType) -> Path | None:
    """The folder of the plugin that a module belongs to; of an installed one its outermost package's."""
    name = module.__name__
    if name.startswith(_PREFIX):
        loaded = _registry.get(".".join(name.split(".")[:2]))
        return loaded.root if loaded else None
    outermost = sys.modules.get(name.partition(".")[0], module)
    file = getattr(outermost, "__file__", None)
    return Path(file).parent if file else None


def fault_of(error: BaseException, root: Path | None) -> LoadFault:
    """Tell an exception of plugin code as a LoadFault, at the deepest line that is the plugin's own."""
    reason = _reason(error)
    if isinstance(error, SyntaxError) and error.filename and (root is None or _within(error.filename, root)):
        file = _within(error.filename, root) or error.filename
        return LoadFault(reason, file, error.lineno or 0, error.offset or 0, remedy="fix the syntax")
    file, line = _own_place(error, root)
    return LoadFault(reason, file, line, remedy=_remedy(error, root), trace=_trace(error))


def _hold(root: Path, package: str) -> _Loaded:
    if not package.startswith(_PREFIX) or "." in package.removeprefix(_PREFIX):
        raise ValueError(f"{package!r} was not made by package_name")
    root = Path(os.path.abspath(root))
    with _registry_lock:
        if NAMESPACE not in sys.modules:
            parent = ModuleType(NAMESPACE, "Every loaded plugin, one package for each content.")
            parent.__path__ = []
            sys.modules[NAMESPACE] = parent
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)
        loaded = _registry.setdefault(package, _Loaded(root))
        if loaded.root != root:
            raise ValueError(f"{package} is loaded from {loaded.root} already")
        loaded.holders += 1
        return loaded


def _release(package: str) -> None:
    with _registry_lock:
        loaded = _registry.get(package)
        if loaded is None:
            return
        loaded.holders -= 1
        if loaded.holders > 0:
            return
        del _registry[package]
        for name in [each for each in sys.modules if each == package or each.startswith(package + ".")]:
            del sys.modules[name]
        vars(sys.modules[NAMESPACE]).pop(package.removeprefix(_PREFIX), None)
    _forget_traces(loaded.root, package)


def _forget_traces(root: Path, package: str) -> None:
    """Drop what the standard library keeps of each module for ever: finders, source lines, loggers."""
    for clear in getattr(sys.modules.get("typing"), "_cleanups", ()):
        clear()  # else its caches hold the classes of the last 128 contents, and with them their modules
    for path in [each for each in sys.path_importer_cache if f"{each}{os.sep}".startswith(f"{root}{os.sep}")]:
        sys.path_importer_cache.pop(path, None)
    linecache = sys.modules.get("linecache")
    if linecache is not None:
        for file in [each for each in linecache.cache if each.startswith(f"{root}{os.sep}")]:
            linecache.cache.pop(file, None)
    logging = sys.modules.get("logging")
    if logging is not None:
        known = logging.root.manager.loggerDict
        with logging._lock:
            gone = [each for each in known if each == package or each.startswith(package + ".")]
            loggers = {known.pop(each) for each in gone}
            holder = known.get(NAMESPACE)
            if isinstance(holder, logging.PlaceHolder):
                for logger in loggers:
                    holder.loggerMap.pop(logger, None)


def _module_name(root: Path, entry: str, package: str) -> str:
    parts = Path(entry).parts
    if not parts or Path(entry).is_absolute() or ".." in parts:
        raise LoadFault(f"the entry {entry!r} is no file of the plugin's folder", remedy="name a .py file")
    if not os.path.exists(root / entry):
        raise LoadFault(
            f"the entry {entry!r} does not exist", remedy="name a .py file of the plugin's folder"
        )
    stem = parts[-1].removesuffix(".py")
    if any("." in each for each in (*parts[:-1], stem)):
        raise LoadFault(
            f"the entry {entry!r} has a dot in a name, which no module can have", remedy="rename it"
        )
    names = parts[:-1] if stem == "__init__" else (*parts[:-1], stem)
    return ".".join((package, *names))


def _package_spec(fullname: str, folder: Path, source: Path | None) -> ModuleSpec | None:
    if source is not None:
        loader = _SourceLoader(fullname, str(source))
        return spec_from_file_location(
            fullname, source, loader=loader, submodule_search_locations=[str(folder)]
        )
    spec = ModuleSpec(fullname, _FolderLoader(fullname, str(folder / "__init__.py")), is_package=True)
    spec.submodule_search_locations = [str(folder)]
    return spec


def _reason(error: BaseException) -> str:
    kind = type(error).__name__
    if isinstance(error, SyntaxError):
        return f"{kind}: {error.msg}"
    if isinstance(error, SystemExit):
        return f"asked the whole process to exit (SystemExit: {error.code!r})"
    try:
        text = str(error)
    except Exception as inner:  # noqa: BLE001 - an exception of the plugin's own may fail to tell itself
        text = f"(its text failed with {type(inner).__name__})"
    return f"{kind}: {text}" if text else kind


def _remedy(error: BaseException, root: Path | None) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name and root is not None:
        name = error.name.split(".")[0]
        if os.path.exists(root / f"{name}.py") or os.path.isdir(root / name):
            return f"the folder is a package: write `from . import {name}` or `from .{name} import …`"
        if not error.name.startswith(_PREFIX):
            return f"install what provides {name!r}, or name it under `requirements`"
    if isinstance(error, SystemExit):
        return "guard the script's own part with `if __name__ == '__main__':`"
    if isinstance(error, RecursionError):
        return "fix the recursion"
    return "fix the plugin's code"


def _own_place(error: BaseException, root: Path | None) -> tuple[str, int]:
    file, line, at = "", 0, error.__traceback__
    while at is not None:
        name = at.tb_frame.f_code.co_filename
        within = _within(name, root)
        if within:
            file, line = within, at.tb_lineno
        at = at.tb_next
    return file, line


def _within(file: str, root: Path | None) -> str:
    prefix = f"{root}{os.sep}"
    return file.removeprefix(prefix) if root is not None and file.startswith(prefix) else ""


def _trace(error: BaseException) -> str:
    import traceback  # noqa: PLC0415 - only needed when something failed

    return "".join(traceback.format_exception(error, limit=-20))
