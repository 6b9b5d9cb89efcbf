"""Spilled rows, partitioned among files by the hash of their keys.

Rows with equal keys are in the same file.
"""

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
"""Number of bits of the hash that determine the file of a row."""
COUNT = 1 << BITS
"""Number of files."""

DEEPEST = 8
"""How often rows may be partitioned, each time by the next bits of the hash, from the highest down.

The lowest bits are not available: they determine the processor of a row.
"""


class HashPartitions:
    """The files of rows that were partitioned `level` times before.

    Iterating yields the files that have rows.
    """

    def __init__(self, memory: Memory, level: int) -> None:
        self._shift = np.uint64(64 - BITS * (level + 1))
        self.files: list[SpillFile] = [memory.file() for _ in range(COUNT)]

    def write(self, batch: pa.RecordBatch, keys: Sequence[pa.Array]) -> None:
        """Write each row to the file of its keys."""
        for target, rows in self.divided(batch, keys):
            self.files[target].write(rows)

    def divided(
        self, batch: pa.RecordBatch, keys: Sequence[pa.Array]
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the number of each file that gets rows, and its rows, in their order."""
        # Example: three rows whose files are targets = [5, 0, 5]. order = [1, 0, 2] sorts them by
        # file; ends = [1, 1, 1, 1, 1, 3, 3, …] is where the rows of each file end in that order.
        # The result is file 0 with row 1, and file 5 with the rows 0 and 2.
        targets = (hash_columns(keys) >> self._shift).astype(np.uint8) & np.uint8(COUNT - 1)
        order = np.argsort(targets, kind="stable")
        ends = np.cumsum(np.bincount(targets, minlength=COUNT)).tolist()
        rows = batch.take(indexes(order))
        start = 0
        for target, end in enumerate(ends):
            if end > start:
                yield target, rows.slice(start, end - start)
            start = end

    def __iter__(self) -> Iterator[SpillFile]:
        return iter([file for file in self.files if file.rows])

    def close(self) -> None:
        for file in self.files:
            file.close()
