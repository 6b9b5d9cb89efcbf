"""The watermarks that have come to a sink: which of its rows are final. A job keeps them with its
snapshots, for who compares what was written with what should have been."""

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
        """Rows of state; none where no watermark came."""
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
        """Takes in rows of state; False where they are none of these."""
        if not is_watermarks(batch):
            return False
        for column, time in zip(
            batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True
        ):
            self.observe(Watermark(time, column))
        return True


def is_watermarks(batch: pa.RecordBatch) -> bool:
    """Whether rows of a sink's state are of its watermarks."""
    return bool(batch.schema.names == _STATE.names)


def watermarks_in(state: Iterable[pa.RecordBatch]) -> dict[int, int]:
    """The watermarks that a sink had seen, by its state."""
    found = SinkWatermarks()
    for batch in state:
        found.restore(batch)
    return found.times
