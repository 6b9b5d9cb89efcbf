"""The current rows of a table without a key: how often each row occurs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes
from runnel.processors.grouping.row_identity import factorise
from runnel.processors.live.accumulated_groups import Changes
from runnel.processors.live.arrangement import Arrangement
from runnel.processors.live.consolidation import EpochRows, state_name
from runnel.processors.live.tables.change_events import (
    EventShape,
    rows_of_events,
    taken,
    together,
)
from runnel.processors.live.tables.keyed_rows import Report


class CountedRows:
    """The rows, each with the number of times that it occurs.

    shape: the columns of events.
    types: the types of the columns of the table, and of the location.
    report: handles events that remove unknown rows; None: the rows are not retained, and no such
        event is found.
    repeats: whether `changes` yields a row as often as it occurs, with the weight 1.
    """

    def __init__(
        self,
        shape: EventShape,
        types: Sequence[pa.DataType],
        report: Report | None,
        *,
        repeats: bool,
    ) -> None:
        self._shape = shape
        self._report = report
        self._repeats = repeats
        self._added = EpochRows(types, is_changing=True)
        self._rows = Arrangement(shape.width, counts=True)

    @property
    def size(self) -> tuple[int, int]:
        """Number of different rows, with the events of the current epoch, and approximate bytes."""
        rows, size = self._added.size
        return self._rows.rows + rows, self._rows.size + size

    def add(self, ordinal: int, batch: pa.RecordBatch) -> None:
        """Adds events of the current epoch."""
        self._added.add(rows_of_events(self._shape, batch))

    def changes(self) -> Iterator[Changes]:
        """Ends the epoch and yields the net change of each row."""
        columns, weights = self._added.taken()
        if not len(weights):
            return
        table = columns[: self._shape.width]
        codes, first = factorise(table)
        totals = np.zeros(len(first), np.int64)
        np.add.at(totals, codes, weights)
        rows = taken(table, first)
        if self._report is not None:
            before = self._counts(rows, len(first))
            excess = before + totals < 0
            if excess.any():
                events = np.flatnonzero(excess[codes] & (weights < 0))
                self._report(columns, events)
                totals = np.maximum(totals, -before)
        changed = np.flatnonzero(totals)
        if not len(changed):
            return
        rows, totals = taken(rows, changed), totals[changed]
        if self._report is not None:
            self._rows.add(rows, totals)
        if self._repeats:
            rows = taken(rows, np.repeat(np.arange(len(totals)), np.maximum(totals, 0)))
            totals = np.ones(len(rows[0]), np.int64)
        yield rows, totals

    def _counts(self, rows: Sequence[pa.Array], count: int) -> Indexes:
        """How often each of different rows occurs so far."""
        counts = np.zeros(count, np.int64)
        stored = self._rows.rows_with(self._rows.hashes_of(rows, count))
        if stored is not None:
            codes, first = factorise(together(rows, stored[0]))
            of_code = np.zeros(len(first), np.int64)
            np.add.at(of_code, codes[count:], stored[1])
            counts = of_code[codes[:count]]
        return counts

    def state(self) -> Iterator[pa.RecordBatch]:
        """The rows, and the events of the current epoch."""
        yield from self._rows.state("row", self._shape.width)
        yield from self._added.state("added", self._shape.width)

    def restore(self, batch: pa.RecordBatch) -> None:
        """Adds a batch of `state`."""
        (self._added if state_name(batch) == "added" else self._rows).restore(batch)
