"""The watermarks that have arrived at a sink, which determine the rows that are final.

A job stores them in its snapshots, for VERIFY, which compares the written rows with the expected
ones.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from runnel.columns.batches import from_numbers
from runnel.processor import Watermark

_STATE = pa.schema([pa.field("watermark", pa.int64()), pa.field("time", pa.int64())])


class SinkWatermarks:
    """The greatest time of each watermark, by its number in the query."""

    def __init__(self) -> None:
        self.times: dict[int, int] = {}

    def observe(self, watermark: Watermark) -> None:
        self.times[watermark.column] = max(
            watermark.time, self.times.get(watermark.column, watermark.time)
        )

    def state(self) -> list[pa.RecordBatch]:
        """Return the state; no batch if no watermark has arrived."""
        if not self.times:
            return []
        columns = [
            np.fromiter(items, np.int64, len(self.times))
            for items in (self.times.keys(), self.times.values())
        ]
        return [
            pa.RecordBatch.from_arrays(
                [from_numbers(item, pa.int64()) for item in columns], schema=_STATE
            )
        ]

    def restore(self, batch: pa.RecordBatch) -> bool:
        """Restore a batch of state; returns false if the batch doesn't contain watermarks."""
        if not is_watermarks(batch):
            return False
        for column, time in zip(
            batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True
        ):
            self.observe(Watermark(time, column))
        return True


def is_watermarks(batch: pa.RecordBatch) -> bool:
    """Whether a batch of a sink's state contains its watermarks."""
    return bool(batch.schema.names == _STATE.names)


def watermarks_in(state: Iterable[pa.RecordBatch]) -> dict[int, int]:
    """Return the watermarks in the state of a sink, by number."""
    found = SinkWatermarks()
    for batch in state:
        found.restore(batch)
    return found.times
