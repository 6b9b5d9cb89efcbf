"""Net changes: the weights of equal rows, added up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, from_numbers, numbers
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


_NONE = np.zeros(0, np.int64)
