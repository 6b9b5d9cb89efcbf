"""The rows of one side of a join that have no match on the other side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, Mask, indexes, join_arrays
from runnel.columns.key_hash import Hashes, hash_columns
from runnel.errors import DataError, Position
from runnel.processors.grouping.row_identity import factorise
from runnel.processors.live.arrangement import Arrangement


class WeightedRows:
    """Rows with their weights.

    columns: the columns.
    weights: the weight of each row.
    matches: the sum of the weights of the pairs of each row that were found in this epoch.
    """

    def __init__(self, columns: Sequence[pa.Array], weights: Indexes) -> None:
        self.columns = columns
        self.weights = weights
        self.matches: Indexes = np.zeros(len(weights), np.int64)

    def at(self, rows: Indexes) -> list[pa.Array]:
        """The columns at some positions."""
        taken = indexes(rows)
        return [column.take(taken) for column in self.columns]


class UnmatchedRows:
    """Finds the changes of the rows without a match.

    It stores the rows that have matches, each with the sum of the weights of its pairs, which is
    the number of times that the row occurs times the number of its matches.

    keys: the number of key columns of the join, the first columns.
    columns: the number of all columns.
    is_single: whether a second match of a row is an error.
    position: where the join stands in the statement, for the error.
    """

    def __init__(
        self, keys: int, columns: int, *, is_single: bool, position: Position | None
    ) -> None:
        self._keys = keys
        self._is_single = is_single
        self._position = position
        self.matched = Arrangement(columns)

    @property
    def size(self) -> tuple[int, int]:
        """Number of rows, and approximate bytes."""
        return self.matched.rows, self.matched.size

    def changes(
        self, new: WeightedRows, before: WeightedRows, touched: Hashes
    ) -> tuple[list[pa.Array], Indexes, Indexes]:
        """Different rows; the change of the weight of each; and the change of its weight among the
        rows without a match.

        new: the rows that were added in this epoch.
        before: all earlier rows whose key has a hash in `touched`.
        touched: the hashes of the keys of new rows of the other side. Rows with other keys have as
            many matches as before, for each time that they occur.
        """
        # Example: the row a occurred twice without a match, and one new row matches it. It has 2
        # pairs: [a] has the weight 2 before, no change of weight, 0 pairs before and 2 more. Its
        # weight among the rows without a match changes by 0 − 2.
        matched = self.matched
        columns = [join_arrays(both) for both in zip(new.columns, before.columns, strict=True)]
        count = len(new.weights) + len(before.weights)
        stored = matched.rows_with(matched.hashes_of(columns, count))
        pairs = np.zeros(0, np.int64)
        if stored is not None:
            columns = [join_arrays(both) for both in zip(columns, stored[0], strict=True)]
            pairs = stored[1]
        codes, first = _numbered(columns, count + len(pairs))
        sums = np.zeros((4, len(first)), np.int64)
        added, earlier, more, known = sums
        start = len(new.weights)
        np.add.at(added, codes[:start], new.weights)
        np.add.at(earlier, codes[start:count], before.weights)
        np.add.at(more, codes[:count], np.concatenate((new.matches, before.matches)))
        np.add.at(known, codes[count:], pairs)
        concerned = np.flatnonzero((added != 0) | (more != 0))
        rows = indexes(first[concerned])
        columns = [column.take(rows) for column in columns]
        added, earlier, more, known = sums[:, concerned]
        is_touched = np.isin(matched_keys(columns, self._keys, len(concerned)), touched)
        if self._is_single:
            pairs, occurs = _pairs_and_rows(sums[:, concerned], is_touched)
            if (pairs > occurs).any():
                raise _second_match(self._position)
        changed = np.flatnonzero(more)
        matched.add([column.take(indexes(changed)) for column in columns], more[changed])
        had, has = known > 0, known + more > 0
        without = np.where(
            is_touched,
            np.where(has, 0, earlier + added) - np.where(had, 0, earlier),
            np.where(had | has, 0, added),
        )
        return columns, added, without


def matched_keys(columns: Sequence[pa.Array], keys: int, num_rows: int) -> Hashes:
    """The hashes of the keys of rows."""
    return hash_columns(columns[:keys]) if keys else np.zeros(num_rows, np.uint64)


def _numbered(columns: Sequence[pa.Array], num_rows: int) -> tuple[Indexes, Indexes]:
    """As `factorise`, also of rows without columns."""
    if columns:
        return factorise(columns)
    return np.zeros(num_rows, np.int64), np.zeros(min(num_rows, 1), np.int64)


def _pairs_and_rows(sums: Indexes, is_touched: Mask) -> tuple[Indexes, Indexes]:
    """How many pairs each row has now, and how often it occurs, in the unit of its weight."""
    added, earlier, more, known = sums
    return (
        np.where(is_touched, known + more, np.abs(more)),
        np.where(is_touched, earlier + added, np.abs(added)),
    )


def _second_match(position: Position | None) -> DataError:
    return DataError(
        "more than one row returned by a subquery used as an expression",
        hint="let the subquery return at most one row, with an aggregate or LIMIT 1",
        position=position,
    )
