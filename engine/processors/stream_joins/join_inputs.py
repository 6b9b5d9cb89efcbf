"""Both inputs of a join of streams: the rows that wait, the watermarks, and the state of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import (
    Mask,
    empty_columns,
    flags,
    from_flags,
    from_numbers,
    make_batch,
    numbers,
    validity,
)
from runnel.columns.key_hash import keyed_state
from runnel.processors.stream_joins.sorted_runs import JoinRows, RunBuffer
from runnel.storage.memory_budget import Memory

_OBSERVED, _EMITTED = "$seen", "$told"
_MARKS = ("$left", "$right")


class JoinInputs:
    """The inputs 0 and 1 of a join. The processor and its StreamJoin share it.

    buffers: the rows that wait, for each input.
    observed: the last watermark of each number that arrived.
    emitted: the last watermark of each number that was emitted.
    ended: for each input, whether it has ended.
    """

    __slots__ = ("buffers", "emitted", "ended", "observed")

    def __init__(self) -> None:
        self.buffers = (RunBuffer(), RunBuffer())
        self.observed: dict[int, int] = {}
        self.emitted: dict[int, int] = {}
        self.ended = [False, False]

    @property
    def count(self) -> int:
        """The number of rows that wait."""
        return sum(buffer.row_count for buffer in self.buffers)

    @property
    def size(self) -> tuple[int, int]:
        """The rows that wait, and their bytes."""
        runs = [run for buffer in self.buffers for run in buffer]
        return sum(run.living for run in runs), sum(run.size for run in runs)

    @property
    def spilled_size(self) -> tuple[int, int]:
        """The rows in files, and their bytes."""
        runs = [run for buffer in self.buffers for run in buffer if run.is_spilled]
        return sum(run.living for run in runs), sum(run.file_bytes for run in runs)

    def spill(self, memory: Memory) -> None:
        """Write the rows to files."""
        for buffer in self.buffers:
            buffer.spill(memory)

    def clear(self) -> None:
        """Remove all rows."""
        for buffer in self.buffers:
            buffer.runs = []

    def watermark_state(self) -> Iterator[pa.RecordBatch]:
        """Yield the observed and the emitted watermarks, for a snapshot."""
        known = sorted(self.observed.keys() | self.emitted.keys())
        if known:
            columns = [from_numbers(np.array(known, np.int64), pa.int64())]
            columns += [_times(known, times) for times in (self.observed, self.emitted)]
            yield pa.RecordBatch.from_arrays(columns, names=["$watermark", _OBSERVED, _EMITTED])

    def restores_watermarks(self, batch: pa.RecordBatch) -> bool:
        """Restore watermarks from a batch of state; returns whether the batch contains watermarks.

        If several processors saved a watermark, the least time counts.
        """
        if batch.schema.names[-1] != _EMITTED:
            return False
        known = numbers(batch.column(0), np.int64).tolist()
        for times, column in ((self.observed, batch.column(1)), (self.emitted, batch.column(2))):
            valid = validity(column)
            for index, time in enumerate(numbers(column, np.int64).tolist()):
                if valid is None or valid[index]:
                    times[known[index]] = min(time, times.get(known[index], time))
        return True


def rows_state(side: int, rows: JoinRows, divided_by: Sequence[int]) -> pa.RecordBatch:
    """Make a batch of state from rows that wait, with a column for whether each was matched.

    side: 0 for the left side, 1 for the right side.
    divided_by: the indexes of the columns by which the state is partitioned.
    """
    columns = [*rows.batch.columns, from_flags(rows.matched)]
    batch = pa.RecordBatch.from_arrays(columns, names=[*rows.batch.schema.names, _MARKS[side]])
    return (
        keyed_state(batch, *(batch.schema.names[column] for column in divided_by))
        if divided_by
        else batch
    )


def restored_rows(batch: pa.RecordBatch) -> tuple[int, pa.RecordBatch, Mask]:
    """Return the side, the rows and the mask of matched rows of a batch of `rows_state`."""
    names = batch.schema.names
    columns = batch.columns[:-1]
    schema = pa.schema(
        [pa.field(name, column.type) for name, column in zip(names, columns, strict=False)]
    )
    rows = make_batch(columns, schema, batch.num_rows) if columns else empty_columns(batch.num_rows)
    return _MARKS.index(names[-1]), rows, flags(batch.column(len(columns))).copy()


def _times(known: list[int], times: dict[int, int]) -> pa.Array:
    values = np.array([times.get(number, 0) for number in known], np.int64)
    return from_numbers(
        values, pa.int64(), np.array([number in times for number in known], np.bool_)
    )
