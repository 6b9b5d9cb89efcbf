"""Rows with weights: their net changes, the rows of an epoch, and rows in snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, from_numbers, join_arrays, numbers
from runnel.columns.key_hash import keyed_state
from runnel.errors import DataError
from runnel.processors.grouping.row_identity import factorise


def weights_of(batch: pa.RecordBatch) -> Indexes:
    """The last column of a batch of changes."""
    return numbers(batch.column(batch.num_columns - 1), np.int64)


def weight_column(weights: Indexes) -> pa.Array:
    """The column of weights."""
    return from_numbers(np.ascontiguousarray(weights, np.int64), pa.int64())


def net_changes(columns: Sequence[pa.Array], weights: Indexes) -> tuple[Indexes, Indexes]:
    """One row of each set of equal rows whose weights do not add up to 0, and the sums.

    The rows are in the order of their first occurrence.
    """
    # Example: the rows [a, b, a, c] with the weights [1, 1, −1, −2]. codes = [0, 1, 0, 2],
    # totals = [0, 1, −2]; the result is the rows [1, 3] and the weights [1, −2].
    if not columns:
        total = int(weights.sum())
        return (np.zeros(1, np.int64), np.array([total])) if total else (_NONE.copy(), _NONE.copy())
    codes, first = factorise(columns)
    totals = np.zeros(len(first), np.int64)
    np.add.at(totals, codes, weights)
    # `first` has any of the equal rows; the order of the result should not depend on hashes.
    earliest = np.full(len(first), len(codes), np.int64)
    np.minimum.at(earliest, codes, np.arange(len(codes)))
    kept = np.flatnonzero(totals)
    kept = kept[np.argsort(earliest[kept], kind="stable")]
    return earliest[kept], totals[kept]


def retracted_too_often() -> DataError:
    """The error for a row that disappears although it is not in the input of an operator."""
    return DataError(
        "a row was retracted that is not in the input of an operator",
        hint="compare the source with the rows that it retracts",
    )


class EpochRows:
    """The rows of the current epoch.

    types: the types of the columns, without the weight.
    is_changing: whether the last column of a batch is the weight; otherwise each row has 1.
    """

    def __init__(self, types: Sequence[pa.DataType], *, is_changing: bool) -> None:
        self._types = tuple(types)
        self._is_changing = is_changing
        self._parts: list[tuple[Sequence[pa.Array], Indexes]] = []
        self.size = (0, 0)
        """Number of rows, and approximate bytes."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows."""
        columns, weights = batch.columns, np.ones(batch.num_rows, np.int64)
        if self._is_changing:
            columns, weights = columns[:-1], weights_of(batch)
        self._parts.append((columns, weights))
        self.size = (self.size[0] + batch.num_rows, self.size[1] + batch.nbytes)

    def taken(self) -> tuple[Sequence[pa.Array], Indexes]:
        """The columns and the weights of the rows, which are removed."""
        parts, self._parts, self.size = self._parts, [], (0, 0)
        if not parts:
            return [pa.nulls(0, item) for item in self._types], _NONE.copy()
        if len(parts) == 1:
            return parts[0]
        columns = zip(*(columns for columns, _ in parts), strict=True)
        return [join_arrays(same) for same in columns], np.concatenate([part[1] for part in parts])

    def state(self, name: str, keys: int) -> Iterator[pa.RecordBatch]:
        """The rows for a snapshot; the arguments are as in `state_batch`."""
        for columns, weights in self._parts:
            yield state_batch(name, columns, weights, keys)

    def restore(self, batch: pa.RecordBatch) -> None:
        """Adds rows of a snapshot."""
        self._parts.append((batch.columns[:-1], weights_of(batch)))
        self.size = (self.size[0] + batch.num_rows, self.size[1] + batch.nbytes)


def state_batch(
    name: str, columns: Sequence[pa.Array], weights: Indexes, keys: int
) -> pa.RecordBatch:
    """Rows for a snapshot.

    name: the name of the state within the processor, without digits at its end. It never changes.
    keys: the number of key columns, the first columns; 0: all rows have the same key.
    """
    names = [*(f"{name}{i}" for i in range(len(columns))), f"{name}_weight"]
    batch = pa.RecordBatch.from_arrays([*columns, weight_column(weights)], names=names)
    return keyed_state(batch, *names[:keys]) if keys else batch


def state_name(batch: pa.RecordBatch) -> str:
    """The name of the state that a batch of `state_batch` belongs to."""
    name: str = batch.schema.names[-1]
    return name.removesuffix("_weight")


_NONE = np.zeros(0, np.int64)
