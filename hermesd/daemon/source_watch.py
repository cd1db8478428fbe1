"""The one look at the disk that the watcher and the reading share."""

from __future__ import annotations

import glob
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from hermesd.clock import Clock
from hermesd.config.configuration import Configuration
from hermesd.reload.settle import ScanState, scan_state
from hermesd.reload.watch import Settled, Watcher
from hermesd.sources.bundled import BundledSource
from hermesd.sources.entry_point import EntryPointSource
from hermesd.sources.fingerprint import file_fingerprint
from hermesd.sources.folder import FolderSource
from hermesd.sources.source import Scan, Source, like

#: An explicit reload waits this long for what is being written just now.
PATIENCE_S = 2.0


class SourceWatch:
    """Watches everything that `configuration()` is read from and names: its files and plugin directories.

    `candidates` are where a configuration may come to lie. `data_dir` is never looked at.
    Life: `start` after the first reading, then `changes`, then `close`.
    """

    def __init__(
        self,
        configuration: Callable[[], Configuration],
        *,
        candidates: Sequence[Path],
        data_dir: Path,
        clock: Clock,
        seen: Callable[[], tuple[Scan, ...]],
        on_rescan_found: Callable[[], None],
        on_degraded: Callable[[str | None], None],
    ) -> None:
        """`seen()`: the scans that the last reading was made from."""
        self._configuration = configuration
        self._seen = seen
        self._candidates = tuple(candidates)
        self._data_dir = data_dir
        plugins = configuration().plugins
        self._watcher = Watcher(
            self._roots,
            self._scan,
            clock=clock,
            rescan=self._rescan,
            files=self._files,
            excluded=[data_dir],
            events=plugins.watch,
            rescan_s=plugins.rescan_s,
            settle_s=plugins.settle_ms / 1000,
            unsettled_s=plugins.unsettled_s,
            on_rescan_found=on_rescan_found,
            on_degraded=on_degraded,
        )
        self._watching = False
        self._looked: tuple[Configuration, tuple[Scan, ...]] | None = None

    @property
    def degraded(self) -> str | None:
        """Why changes are noticed later than they should be, or None."""
        return self._watcher.degraded

    async def start(self, seen: Sequence[Scan]) -> None:
        """Begin, with what the first reading has `seen` as known."""
        await self._watcher.start(self._state(seen))
        self._watching = True

    def changes(self) -> AsyncIterator[Settled]:
        """What has settled, until `close`."""
        return self._watcher.changes()

    async def close(self) -> None:
        """Stop. Idempotent."""
        await self._watcher.close()

    def tune(self) -> None:
        """Take over the times of a configuration that has come into force."""
        plugins = self._configuration().plugins
        self._watcher.tune(
            rescan_s=plugins.rescan_s,
            settle_s=plugins.settle_ms / 1000,
            unsettled_s=plugins.unsettled_s,
        )

    def sources(self, configuration: Configuration) -> Sequence[Source]:
        """Where plugins may come from under `configuration`."""
        plugins = configuration.plugins
        return (
            BundledSource(),
            EntryPointSource(plugins.entry_points),
            FolderSource(plugins.dirs, excluded=[self._data_dir]),
        )

    def _roots(self) -> Sequence[Path]:
        return self._configuration().plugins.dirs

    def _files(self) -> Sequence[Path]:
        return self.files_of(self._configuration())

    def files_of(self, configuration: Configuration) -> Sequence[Path]:
        """Every file that loading the configuration may look at, those that do not exist too."""
        included = [Path(found) for pattern in configuration.include_globs for found in glob.glob(pattern)]
        return list(dict.fromkeys([*self._candidates, *configuration.watched, *included]))

    def _scan(self) -> ScanState:
        """Look at everything, for the watcher and in its thread; the next reading starts from that."""
        self._looked = None
        configuration = self._configuration()
        scans = tuple(source.scan() for source in self.sources(configuration))
        return self._keep(configuration, like(scans, self._seen()))

    def _rescan(self, places: frozenset[str]) -> ScanState | None:
        """As `_scan`, but look only at the plugins that `places` lie in; None: that is not enough."""
        looked, self._looked = self._looked, None
        configuration = self._configuration()
        if looked is None or looked[0] is not configuration:
            return None
        scans = []
        for source, before in zip(self.sources(configuration), looked[1], strict=True):
            scan = source.rescan(before, places) if isinstance(source, FolderSource) else before
            if scan is None:
                return None
            scans.append(scan)
        return self._keep(configuration, tuple(scans))

    def _keep(self, configuration: Configuration, scans: tuple[Scan, ...]) -> ScanState:
        state = self._state(scans)
        self._looked = (configuration, scans)
        return state

    def scans(self, configuration: Configuration) -> tuple[Scan, ...] | None:
        """The newest scans of the sources of `configuration`, or None when there are none."""
        looked = self._looked
        return looked[1] if looked is not None and looked[0] is configuration else None

    def _state(self, scans: Sequence[Scan]) -> ScanState:
        return scan_state(*scans, files={str(path): file_fingerprint(path) for path in self._files()})

    def moved(self, scans: Sequence[Scan]) -> frozenset[str]:
        """The units that are not as they were when they settled. From any thread."""
        return self._watcher.moved(self._state(scans)) if self._watching else frozenset()

    async def unsettled(self, patient: bool) -> frozenset[str]:
        """The units that are being written just now. `patient`: after waiting for them, bounded."""
        if not self._watching:
            return frozenset()
        if not patient:
            return self._watcher.unsettled
        settled = await self._watcher.settle(PATIENCE_S)
        return settled.unsettled
