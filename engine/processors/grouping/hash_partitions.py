"""Rows in files, divided by the hash of their keys, so that rows with equal keys are in one
file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from runnel.columns.batches import indexes
from runnel.columns.key_hash import hash_columns
from runnel.storage.memory_budget import Memory

if TYPE_CHECKING:
    from runnel.storage.spill import SpillFile

BITS = 4
COUNT = 1 << BITS
"""How many files there are."""

DEEPEST = 8
"""How often rows may be divided, each time by further bits of the hash, from the highest down: the
lowest decide which processor has a row."""


class Partitions:
    """Files that were divided `level` times before. Iterating gives those with rows."""

    def __init__(self, memory: Memory, level: int) -> None:
        self._shift = np.uint64(64 - BITS * (level + 1))
        self.files: list[SpillFile] = [memory.file() for _ in range(COUNT)]

    def write(self, batch: pa.RecordBatch, keys: Sequence[pa.Array]) -> None:
        """Writes rows, each to the file of its keys."""
        for place, rows in self.divided(batch, keys):
            self.files[place].write(rows)

    def divided(
        self, batch: pa.RecordBatch, keys: Sequence[pa.Array]
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows by file; they keep their order."""
        places = (hash_columns(keys) >> self._shift).astype(np.uint8) & np.uint8(COUNT - 1)
        order = np.argsort(places, kind="stable")
        ends = np.cumsum(np.bincount(places, minlength=COUNT)).tolist()
        rows = batch.take(indexes(order))
        start = 0
        for place, end in enumerate(ends):
            if end > start:
                yield place, rows.slice(start, end - start)
            start = end

    def __iter__(self) -> Iterator[SpillFile]:
        return iter([file for file in self.files if file.rows])

    def close(self) -> None:
        for file in self.files:
            file.close()
