"""Scans of a map through a secondary index: the rows that a look-up finds, in index order on
request.

Every segment contributes a *run*: its live rows that match, in order. Without a requested order the
runs are read one after the other. With an order they are merged in rounds. In each round every run
shows its next rows, the candidates, in proportion to the number of rows that it has left. A run
that has more rows than it showed sets a bound: its last candidate. All candidates up to the lowest
bound precede all rows that are not shown yet, so they come next in the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.columns.batches import indexes
from runnel.connector import (
    BATCH_ROWS,
    END,
    End,
    IndexLookup,
    Pause,
    ScanRequest,
    Source,
    SourcePartition,
)
from runnel.connectors.imap.layout import MapLayout
from runnel.connectors.imap.scan import project
from runnel.connectors.imap.storage.index import (
    Positions,
    Range,
    SortedOrder,
    order_of,
    sorted_positions,
)
from runnel.connectors.imap.storage.segment import Mask
from runnel.connectors.imap.storage.store import MapStore
from runnel.connectors.imap.values import key_form
from runnel.expressions.nodes import Expression, Literal, Parameter
from runnel.processor import JobContext
from runnel.sqltypes import SqlType

FIRST_ROUND = 256
"""The number of rows of the first ordered batch. Each further batch is four times as long, so
that a LIMIT above stops early."""


class MapIndexSource(Source):
    """The rows of a mapping that a look-up finds."""

    def __init__(
        self,
        store: MapStore,
        layout: MapLayout,
        columns: Sequence[TableColumn],
        request: ScanRequest,
        lookup: IndexLookup,
    ) -> None:
        self._store = store
        self._layout = layout
        self._request = request
        self._lookup = lookup
        self._names = [columns[i].name for i in request.columns]
        by_name = {column.name.lower(): i for i, column in enumerate(columns)}
        self._index_columns = tuple(by_name[name.lower()] for name in lookup.index.columns)

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        request, layout = self._request, self._layout
        bound_lookup = BoundLookup(self._lookup, layout.types[self._index_columns[0]], context)
        runs = []
        for view in self._store.snapshot():
            order = order_of(view.segment, layout, self._index_columns)
            ranges = bound_lookup.find(order)
            if ranges:
                batch = project(
                    view.segment.batch, view.segment.layout, layout, request.columns, self._names
                )
                runs.append(
                    IndexRun(
                        batch, order, _positions(order, ranges, self._lookup.descending), view.mask
                    )
                )
        limit = request.limit if request.predicate is None else None
        # A batch without columns has no visible order.
        ordered = self._lookup.ordered and bool(request.columns)
        return [IndexPartition(runs, limit, ordered, self._lookup.descending)]


class BoundLookup:
    """A look-up whose parameters have values."""

    def __init__(self, lookup: IndexLookup, column: SqlType, context: JobContext) -> None:
        form = key_form(column)

        def value(expression: Expression | None) -> Any:
            found = _value(expression, context)
            return found if found is None or form is None else form(found)

        self._lookup = lookup
        self._points = None
        if lookup.points is not None:
            self._points = [found for found in map(value, lookup.points) if found is not None]
        self._lower, self._upper = value(lookup.lower), value(lookup.upper)
        self._is_empty = (lookup.lower is not None and self._lower is None) or (
            lookup.upper is not None and self._upper is None
        )

    def find(self, order: SortedOrder) -> list[Range]:
        """The ranges of positions in `order` that the look-up finds."""
        lookup = self._lookup
        if self._points is not None:
            return order.points(self._points)
        if self._is_empty:
            return []
        if lookup.lower is None and lookup.upper is None:
            return order.everything()
        return order.between(
            self._lower, self._upper, lookup.lower_inclusive, lookup.upper_inclusive
        )


def _value(expression: Expression | None, context: JobContext) -> Any:
    if isinstance(expression, Literal):
        return expression.value
    if isinstance(expression, Parameter):
        return context.evaluation.arguments[expression.index].as_py()
    assert expression is None
    return None


def _positions(order: SortedOrder, ranges: list[Range], descending: bool) -> Positions:
    chunks = [order.positions[low:high] for low, high in ranges]
    positions = chunks[0] if len(chunks) == 1 else np.concatenate(chunks)
    return positions[::-1] if descending else positions


class IndexRun:
    """The rows of one segment that a look-up found, in the order of the result."""

    __slots__ = ("_at", "_mask", "_positions", "_ready", "batch", "order")

    def __init__(
        self, batch: pa.RecordBatch, order: SortedOrder, positions: Positions, mask: Mask | None
    ) -> None:
        self.batch = batch
        self.order = order
        self._positions = positions
        self._mask = mask
        self._at = 0
        self._ready: Positions = positions[:0]

    @property
    def left(self) -> int:
        """An upper bound of the number of rows left; it includes rows that are not alive."""
        return len(self._ready) + len(self._positions) - self._at

    def peek(self, count: int) -> Positions:
        """The next live rows: `count` of them, or all if there are fewer."""
        while len(self._ready) < count and self._at < len(self._positions):
            block = self._positions[self._at : self._at + max(count, FIRST_ROUND)]
            self._at += len(block)
            live = block if self._mask is None else block[self._mask[block]]
            self._ready = np.concatenate([self._ready, live]) if len(self._ready) else live
        return self._ready[:count]

    def take(self, count: int) -> None:
        """Removes the next `count` rows."""
        self._ready = self._ready[count:]

    def has_more_than(self, count: int) -> bool:
        return self.left > count


class IndexPartition(SourcePartition):
    """The only partition of an index scan."""

    def __init__(
        self, runs: list[IndexRun], limit: int | None, ordered: bool, descending: bool
    ) -> None:
        self._runs = runs
        self._left = limit
        self._ordered = ordered
        self._descending = descending
        self._size = FIRST_ROUND if ordered else BATCH_ROWS

    def read(self) -> pa.RecordBatch | Pause | End:
        while True:
            self._runs = [run for run in self._runs if run.left]
            if not self._runs or (self._left is not None and self._left <= 0):
                return END
            size = self._size if self._left is None else min(self._size, self._left)
            self._size = min(self._size * 4, BATCH_ROWS)
            batch = self._merged(size) if self._ordered else self._gathered(size)
            if batch.num_rows:
                if self._left is not None:
                    batch = batch.slice(0, self._left)
                    self._left -= batch.num_rows
                return batch

    def _gathered(self, size: int) -> pa.RecordBatch:
        """Rows of one run after the other."""
        chunks = []
        for run in self._runs:
            positions = run.peek(size)
            # Without a requested order, the order of the rows in memory is the fastest.
            chunks.append(
                run.batch.take(indexes(positions if self._ordered else np.sort(positions)))
            )
            run.take(len(positions))
            size -= len(positions)
            if size <= 0 or not run.batch.num_columns:
                break
        return chunks[0] if len(chunks) == 1 else pa.concat_batches(chunks)

    def _merged(self, size: int) -> pa.RecordBatch:
        """The next rows in order; at least one, and at most about `size`."""
        if len(self._runs) == 1:
            return self._gathered(size)
        # Example: run 0 shows [1, 7] and has more rows, run 1 shows [3, 5] and has none left. The
        # candidates are numbered [1, 7, 3, 5] -> 0, 1, 2, 3. In order: 0 (1), 2 (3), 3 (5), 1 (7).
        # The last one shown by run 0 (7) has rank 3, so bound = 4: all four come next. starts = [0,
        # 2, 4]; chosen numbers from 0 up to 2 belong to run 0, from 2 up to 4 to run 1.
        shown = self._candidates(size)
        order, bound = self._order(shown)
        chosen = order[:bound]
        starts = np.cumsum([0, *map(len, shown)])
        for i, run in enumerate(self._runs):
            run.take(int(np.count_nonzero((chosen >= starts[i]) & (chosen < starts[i + 1]))))
        chunks = [
            run.batch.take(indexes(positions))
            for run, positions in zip(self._runs, shown, strict=True)
        ]
        rows = chunks[0] if len(chunks) == 1 else pa.concat_batches(chunks)
        return rows.take(indexes(chosen))

    def _candidates(self, size: int) -> list[Positions]:
        if size == self._left and size * len(self._runs) <= BATCH_ROWS:
            # This batch reaches the limit: `size` rows of each run are always enough, in one round.
            return [run.peek(size) for run in self._runs]
        total = sum(run.left for run in self._runs)
        return [run.peek(size * run.left // total + 1) for run in self._runs]

    def _order(self, shown: list[Positions]) -> tuple[np.ndarray[Any, Any], int]:
        """Sorts the candidates, which are numbered run by run, and counts those that come next.

        Returns the numbers in order, and how many of the first ones precede all rows that are not
        shown.
        """
        count = sum(map(len, shown))
        keys = []
        for column in range(len(self._runs[0].order.keys)):
            chunks = [
                run.order.keys[column].take(indexes(positions))
                for run, positions in zip(self._runs, shown, strict=True)
            ]
            keys.append(pa.concat_arrays(chunks))
        if self._descending:
            # Reversed twice, so that equal rows of one run keep their order.
            backwards = indexes(np.arange(count - 1, -1, -1))
            order = (
                count - 1 - sorted_positions([key.take(backwards) for key in keys]).astype(np.int64)
            )[::-1]
        else:
            order = sorted_positions(keys).astype(np.int64)
        # rank[i] is the position of candidate i in the order; ends[r] is the last candidate of run
        # r. Example: order = [0, 2, 3, 1], two candidates per run: rank = [0, 3, 1, 2], ends = [1,
        # 3]. If only run 0 has more rows, sure = [rank[1] + 1] = [4].
        rank = np.empty(count, dtype=np.int64)
        rank[order] = np.arange(count)
        ends = np.cumsum(list(map(len, shown))) - 1
        sure = [
            int(rank[end]) + 1
            for run, positions, end in zip(self._runs, shown, ends, strict=True)
            if len(positions) and run.has_more_than(len(positions))
        ]
        return order, min([*sure, count, BATCH_ROWS])

    def close(self) -> None:
        self._runs = []
