"""What calls leave behind for their owner to read later, off the loop and bounded in time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Literal, TypeVar

from hermesd.access.policy import decide, whose_calls
from hermesd.errors import InvalidRequestError, NotFoundError, StoreError
from hermesd.model.call import Caller, Owner
from hermesd.store.output import Kept, Kind, OutputStore

_log = logging.getLogger("hermesd.serving")

Part = Literal["data", "content"]
PAGE_BYTES = 1024 * 1024
#: A disk that takes longer to keep an output keeps up no answer.
KEEP_S = 10.0
SWEEP_S = 60.0
#: Two, so that one slow read holds up no write.
THREADS = 2
AnswerT = TypeVar("AnswerT")


def owner_of(caller: Caller) -> str:
    """Whose outputs those of this caller's calls are: of the operator or agent at whose wish it happens."""
    return str(caller.owner)


def may_read(caller: Caller, owner: str) -> bool:
    """Whether the policy lets this caller read what was kept for `owner`."""
    return decide(caller, "read", Owner.parse(owner)).allowed


class Outputs:
    """The one way to the kept outputs. Without a store nothing is kept.

    `trouble` is told once when the disk stops taking outputs, and with "" when it takes them again.
    """

    def __init__(
        self, store: OutputStore | None = None, trouble: Callable[[str], None] = lambda _: None
    ) -> None:
        self._store = store
        self._trouble = trouble
        self._troubled = False
        self._executor: ThreadPoolExecutor | None = None

    @property
    def size(self) -> int:
        """Bytes that are kept now."""
        return 0 if self._store is None else self._store.size

    async def open(self) -> list[Kept]:
        """Find what an earlier daemon kept: the calls that had not ended when it did."""
        return [] if self._store is None else await self.in_thread(self._store.open)

    def limit(self, max_bytes: int, keep_s: float) -> None:
        """From now on: bytes of all outputs together, and how long each is kept."""
        if self._store is not None:
            self._store.max_bytes, self._store.keep_s = max_bytes, keep_s

    async def keep(
        self,
        kind: Kind,
        owner: str,
        request_id: str,
        *,
        data: str = "",
        content: str = "",
        about: Mapping[str, object] | None = None,
        lasting: bool = False,
    ) -> datetime | None:
        """Keep it; until when. Raises StoreError, also when the disk takes longer than 10 s."""
        if self._store is None:
            raise StoreError("nothing keeps outputs here")
        write = partial(
            self._store.write, kind, owner, request_id,
            data=data, content=content, about=about, lasting=lasting,
        )  # fmt: skip
        writing = self._submit(write)
        try:
            async with asyncio.timeout(KEEP_S):
                kept = await asyncio.wrap_future(writing)
        except (TimeoutError, asyncio.CancelledError) as error:
            # Nobody knows of it: what is written in spite of that has no reader, and may have no end.
            writing.add_done_callback(partial(_forget, self._store))
            if isinstance(error, asyncio.CancelledError):
                raise
            self._told(f"the disk did not take an output within {KEEP_S:g} s")
            raise StoreError(f"the disk did not take it within {KEEP_S:g} s") from None
        except StoreError as error:
            self._told(error.message)
            raise
        self._told("")
        return kept.expires

    def find(self, kind: Kind, caller: Caller, request_id: str) -> Kept | None:
        """What is kept of a call of this caller; the operator finds everybody's, its own first."""
        if self._store is None:
            return None
        found = self._store.find(kind, owner_of(caller), request_id)
        if found is None and whose_calls(caller) is None:
            found = next(iter(self._store.owners(kind, request_id)), None)
        return found if found is not None and may_read(caller, found.owner) else None

    async def text(self, kept: Kept, part: Part) -> str:
        """A whole text. Raises StoreError when it is gone."""
        assert self._store is not None  # noqa: S101 - `kept` came from it
        size = kept.sizes[1 if part == "content" else 0]
        return (await self.in_thread(partial(self._store.read, kept, part, 0, size))).decode()

    async def page(self, caller: Caller, request_id: str, part: str, offset: int) -> tuple[str, int, int]:
        """At most 1 MiB of a text from byte `offset` on, where the next page begins, and the whole size.

        NotFoundError, alike for what is not there and what is not the caller's; InvalidRequestError.
        """
        if part not in ("", "data", "content"):
            raise InvalidRequestError(f"part {part!r} is neither data nor content")
        which: Part = "content" if part == "content" else "data"
        gone = NotFoundError(f"there is no output of a call {request_id!r}", remedy="it may have expired")
        kept = self._whole(caller, request_id)
        if kept is None or self._store is None:
            raise gone
        total = kept.sizes[1 if which == "content" else 0]
        if not 0 <= offset <= total:
            raise InvalidRequestError(f"offset {offset} is not between 0 and {total}")
        try:
            # Three bytes more: the last character may have to be left to the next page.
            data = await self.in_thread(partial(self._store.read, kept, which, offset, PAGE_BYTES))
        except StoreError as error:
            _log.warning("an output of %s is gone: %s", request_id, error.message)
            raise gone from error
        text = _whole_characters(data, offset)
        return text, offset + len(text.encode()), total

    def _whole(self, caller: Caller, request_id: str) -> Kept | None:
        """Where the whole result of a call is: of a detached one that was not cut beside its answer."""
        output, call = self.find("output", caller, request_id), self.find("call", caller, request_id)
        if call is None or call.expires is None or call.about.get("truncated"):
            return output
        return output if output is not None and output.at > call.at else call

    async def remove(self, kind: Kind, owner: str, request_id: str) -> None:
        """Keep it no longer."""
        if self._store is not None and (kept := self._store.find(kind, owner, request_id)) is not None:
            await self.in_thread(partial(self._store.remove, kept))

    async def run(self) -> None:
        """Remove what has expired, for ever."""
        while self._store is not None:
            await asyncio.sleep(SWEEP_S)
            await self.in_thread(self._store.sweep)

    def close(self) -> None:
        """Wait for what is being written."""
        if self._executor is not None:
            self._executor.shutdown()

    async def in_thread(self, work: Callable[[], AnswerT]) -> AnswerT:
        """Do what takes long off the loop."""
        return await asyncio.wrap_future(self._submit(work))

    def _submit(self, work: Callable[[], AnswerT]) -> Future[AnswerT]:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="hermesd-output")
        return self._executor.submit(work)

    def _told(self, reason: str) -> None:
        if bool(reason) != self._troubled:
            self._troubled = bool(reason)
            self._trouble(reason)


def _forget(store: OutputStore, written: Future[Kept]) -> None:
    if not written.cancelled() and written.exception() is None:
        store.remove(written.result())


def _whole_characters(data: bytes, offset: int) -> str:
    """The text of a page. A character that its end cuts is left to the next one."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if error.start == 0 or len(data) - error.start > 3:
            raise InvalidRequestError(f"offset {offset} lies within a character") from None
        return data[: error.start].decode()
