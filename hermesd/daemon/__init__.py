"""The daemon: wires everything, and owns the order in which it starts and stops."""

from __future__ import annotations

import asyncio
import os
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

from hermesd.clock import SystemClock
from hermesd.config.configuration import Configuration
from hermesd.config.load import find_config, load_configuration
from hermesd.config.places import config_path, data_dir, listen_address, plugin_dirs
from hermesd.daemon import memory
from hermesd.daemon.options import ServeOptions
from hermesd.errors import ConfigError, HermesdError
from hermesd.model.text import clean
from hermesd.runtimes.loop import new_loop
from hermesd.store.layout import DataDir
from hermesd.store.lock import DataDirLock
from hermesd.supervise.launcher import Launcher
from hermesd.systemd.credential import Credentials
from hermesd.telemetry.log import configure

#: How long a thread may hold the interpreter before another gets it: one CPU-bound plugin thread must
#: not make every other call wait for the default 5 ms.
SWITCH_INTERVAL_S = 0.001


def run(options: ServeOptions) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit status: 0 stopped, 1 could not start."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        print(  # noqa: T201 - before logging is configured
            "hermesd: this Python has no global interpreter lock; grpc does not support that yet. "
            "Use an ordinary build of Python 3.11 to 3.14.",
            file=sys.stderr,
        )
        return 1
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    memory.hold()
    try:
        configure(options.log_format or "text", options.log_level or "info", sys.stderr)
        return _serve(options)
    except (HermesdError, OSError) as error:
        words = _words(error)
    except ExceptionGroup as group:
        # Life in a task group wraps what ended it. What is ours, or the system's, needs no traceback.
        ends = list(_leaves(group))
        if not all(isinstance(each, HermesdError | OSError) for each in ends):
            raise
        words = [word for each in ends for word in _words(each)]
    for word in words:
        print(f"hermesd: {clean(word)}", file=sys.stderr)  # noqa: T201 - the command line's own words
    return 1


def _words(error: Exception) -> list[str]:
    """What ended the daemon, for the operator to read."""
    if isinstance(error, ConfigError):
        return [str(rejection) for rejection in error.rejections]
    if isinstance(error, HermesdError):
        return [f"{error.message} ({error.remedy})" if error.remedy else error.message]
    return [str(error)]


def _leaves(group: ExceptionGroup[Exception]) -> Iterator[Exception]:
    for each in group.exceptions:
        if isinstance(each, ExceptionGroup):
            yield from _leaves(each)
        else:
            yield each


def _serve(options: ServeOptions) -> int:
    clock = SystemClock()
    is_root = os.geteuid() == 0
    credentials = Credentials.from_environ(os.environ)

    def load() -> Configuration:
        # Looked for each time: a daemon that was started without a file finds the one made later.
        return load_configuration(
            find_config(options.config, os.environ, is_root),
            environ=os.environ,
            overrides=_overrides(options),
            defaults={"plugins.dirs": list(plugin_dirs(options.config, os.environ, is_root))},
            held=credentials.read,
        )

    began_ns = time.time_ns()
    configuration = load()
    directory = DataDir(_data_dir(configuration))
    addresses = _addresses(configuration)
    lock = DataDirLock(directory.lock, clock)
    lock.acquire(addresses)
    try:
        directory.prepare()
        # Before grpc is loaded: what the launcher inherits is what it can leak.
        launcher = Launcher.start()
        try:
            from hermesd.daemon.life import Daemon  # noqa: PLC0415 - loads grpc

            daemon = Daemon(
                load=load,
                configuration=configuration,
                loaded_ns=began_ns,
                candidates=config_path(options.config, os.environ, is_root),
                directory=directory,
                addresses=addresses,
                launcher=launcher,
                clock=clock,
            )
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(daemon.run())
        finally:
            launcher.close()
    finally:
        lock.release()
    return 0


def _overrides(options: ServeOptions) -> dict[str, object]:
    overrides: dict[str, object] = {}
    if options.listen:
        overrides["server.listen"] = list(options.listen)
    if options.data_dir is not None:
        overrides["data_dir"] = str(options.data_dir)
    return overrides


def _data_dir(configuration: Configuration) -> Path:
    found = configuration.data_dir or data_dir(os.environ, os.geteuid() == 0)
    if found is None:
        raise HermesdError("nothing says where to keep data", remedy="give --data-dir, or set HOME")
    return found


def _addresses(configuration: Configuration) -> tuple[str, ...]:
    if configuration.server.listen:
        return configuration.server.listen
    found = listen_address(os.environ, os.geteuid() == 0)
    if found is None:
        raise HermesdError(
            "nothing says where to listen",
            remedy="set HOME or server.listen, or give --listen unix:PATH",
        )
    return (found,)
