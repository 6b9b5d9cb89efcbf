"""State that stays the same from one snapshot to the next: written once, and then linked to."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from itertools import count
from pathlib import Path

import pyarrow as pa

LEAST_BYTES = 64 << 10
"""A smaller batch is sooner written than linked to."""


class KeptFile:
    """A file with one batch. `place` is the folder that it can be linked from."""

    __slots__ = ("batch", "bytes", "checksum", "name", "place")

    def __init__(self, name: str, batch: pa.RecordBatch) -> None:
        self.name = name
        self.batch = weakref.ref(batch)
        self.bytes = 0
        self.checksum = 0
        self.place = Path()


class KeptFiles:
    """Knows the batches of the last snapshot that were written to files of their own.

    They are told by being the same object: what a processor offers at each snapshot it must keep, then. A batch that is seen
    for the first time can't be told from one that will never be offered again; so it is written to the common file, and
    only at the second time to one of its own.
    """

    def __init__(self) -> None:
        self._files: dict[int, KeptFile] = {}
        self._seen: dict[int, weakref.ref[pa.RecordBatch]] = {}
        self._seen_now: dict[int, weakref.ref[pa.RecordBatch]] = {}
        self._numbers = count()

    def wants(self, batch: pa.RecordBatch) -> bool:
        """Whether the batch is to have a file of its own."""
        if batch.nbytes < LEAST_BYTES:
            return False
        key = id(batch)
        self._seen_now[key] = weakref.ref(batch)
        known = self._seen.get(key)
        return known is not None and known() is batch

    def find(self, batch: pa.RecordBatch) -> KeptFile | None:
        file = self._files.get(id(batch))
        return file if file is not None and file.batch() is batch else None

    def new(self, batch: pa.RecordBatch) -> KeptFile:
        file = self._files[id(batch)] = KeptFile(f"kept-{next(self._numbers)}.arrows", batch)
        return file

    def keep_only(self, files: Iterable[KeptFile], place: Path) -> None:
        """A snapshot with these files was completed."""
        self._files = {}
        for file in files:
            file.place = place
            batch = file.batch()
            if batch is not None:
                self._files[id(batch)] = file
        self._seen, self._seen_now = self._seen_now, {}

    def give_up(self) -> None:
        """A snapshot was given up."""
        self._seen_now = {}
        self._files = {key: file for key, file in self._files.items() if file.place != Path()}
