"""Results that are maintained by computing them again: the rows of the partitions that an epoch
touched pass through the operator of bounded queries, and the difference to the rows that were
emitted is the change.

This is right for every operator whose result for a partition depends on the rows of that partition
only, and for rows that change. It costs the rows of the touched partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import (
    Indexes,
    indexes,
    join_arrays,
    make_batch,
    no_rows,
    numbers,
)
from runnel.columns.key_hash import Hashes, hash_columns
from runnel.processors.live.accumulated_groups import Changes
from runnel.processors.live.arrangement import Arrangement
from runnel.processors.live.consolidation import (
    EpochRows,
    net_changes,
    retracted_too_often,
    state_name,
)

Compute = Callable[[pa.RecordBatch], Sequence[pa.RecordBatch]]
"""Returns the result over all rows of some partitions."""


class RecomputedPartitions:
    """The partitions of an operator, by their rows.

    keys: the number of partition columns, which are the first columns of the input and of the
        result; 0: there is one partition.
    schema: the columns of the input, without weights.
    compute: the operator.
    is_changing: whether the last column of the input is the weight; otherwise each row has 1.
    is_ordered: whether the result depends on the order of the rows.
    """

    def __init__(
        self,
        keys: int,
        schema: pa.Schema,
        compute: Compute,
        *,
        is_changing: bool,
        is_ordered: bool,
    ) -> None:
        self._keys = keys
        self._schema = schema
        self._compute = compute
        self._is_ordered = is_ordered
        self._added = EpochRows(schema.types, is_changing=is_changing)
        self._rows = Arrangement(keys)
        self._emitted = Arrangement(keys)
        self._is_begun = False

    @property
    def size(self) -> tuple[int, int]:
        """Number of rows, with the ones of the current epoch, and approximate bytes."""
        rows, size = self._added.size
        return self._rows.rows + rows, self._rows.size + self._emitted.size + size

    def add(self, ordinal: int, batch: pa.RecordBatch) -> None:
        """Adds rows of the current epoch."""
        self._added.add(batch)

    def changes(self) -> Iterator[Changes]:
        """As `AccumulatedGroups.changes`."""
        is_first = not self._is_begun and not self._keys
        self._is_begun = True
        if not self._added.size[0] and not is_first:
            return
        hashes = self._taken_in()
        # Example: the row a was emitted with weight 1, and a and b are computed. The weights of
        # [a, a, b] are [−1, 1, 1]: the change is b with weight 1.
        before = self._emitted.rows_with(hashes)
        computed = self._compute(self._rows_of(hashes))
        parts = [] if before is None else [before[0]]
        parts += [batch.columns for batch in computed if batch.num_rows]
        if not parts:
            return
        came = sum(batch.num_rows for batch in computed)
        left = np.zeros(0, np.int64) if before is None else -before[1]
        columns = [join_arrays(same) for same in zip(*parts, strict=True)]
        rows, weights = net_changes(columns, np.concatenate((left, np.ones(came, np.int64))))
        taken = indexes(rows)
        changed = [column.take(taken) for column in columns]
        self._emitted.add(changed, weights)
        if len(weights):
            yield changed, weights

    def _taken_in(self) -> Hashes:
        """Moves the rows of the epoch to the arrangement; returns the hashes of their keys."""
        columns, weights = self._added.taken()
        if not len(weights):
            return np.zeros(1, np.uint64)
        self._rows.add(columns, weights)
        return self._rows.hashes_of(columns[: self._keys], len(weights))

    def state(self) -> Iterator[pa.RecordBatch]:
        """The rows, what was emitted, and the rows of the current epoch."""
        yield from self._rows.state("row", self._keys)
        yield from self._emitted.state("emitted", self._keys)
        yield from self._added.state("added", self._keys)

    def restore(self, batch: pa.RecordBatch) -> None:
        """Adds a batch of `state`."""
        parts: dict[str, Arrangement | EpochRows] = {
            "row": self._rows,
            "emitted": self._emitted,
            "added": self._added,
        }
        parts[state_name(batch)].restore(batch)

    def _rows_of(self, hashes: Hashes) -> pa.RecordBatch:
        """All rows of the partitions whose keys have these hashes, each as often as it occurs."""
        found = self._rows.rows_with(hashes)
        if found is None:
            return no_rows(self._schema)
        columns, counts = found
        if (counts < 0).any():
            raise retracted_too_often()
        order = _order(columns) if self._is_ordered and columns else np.arange(len(counts))
        taken = indexes(np.repeat(order, counts[order]))
        return make_batch([column.take(taken) for column in columns], self._schema, len(taken))


def _order(columns: Sequence[pa.Array]) -> Indexes:
    """An order of rows that depends only on the rows, so that a value that depends on the order is
    the same whenever it is computed."""
    if not all(_is_sortable(column.type) for column in columns):
        return np.argsort(hash_columns(columns), kind="stable")
    names = [f"c{i}" for i in range(len(columns))]
    table = pa.table(list(columns), names=names)
    found = pc.sort_indices(table, [(name, "ascending") for name in names])
    return numbers(found, np.uint64).astype(np.int64)


def _is_sortable(arrow: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(arrow)
        or pa.types.is_floating(arrow)
        or pa.types.is_decimal(arrow)
        or pa.types.is_boolean(arrow)
        or pa.types.is_string(arrow)
        or pa.types.is_binary(arrow)
        or pa.types.is_date(arrow)
        or pa.types.is_time(arrow)
        or pa.types.is_timestamp(arrow)
    )
