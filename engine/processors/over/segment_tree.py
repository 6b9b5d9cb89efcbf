"""A segment tree whose levels are numpy columns: combines the values of ranges of rows, for many
ranges at once.

Building the tree costs about two operations per row, a query about two per level; both are
vectorised over rows and ranges. Floats are summed along a balanced tree, never by subtracting
running totals, so no precision is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from runnel.columns.batches import Indexes, Numbers

Values = tuple[Numbers, ...]
Combine = Callable[[Values, Values], Values]

QUERIES = 1 << 15
"""Number of ranges processed at a time, so that their columns stay in the CPU's cache."""


class RangeTree:
    """A tree over rows of one or more columns.

    columns: the values of the leaves.
    neutral: one value per column, the neutral element of `combine`.
    combine: an associative function of two tuples of columns.

    Leaves a b c d e with sums: the levels are [a b c d e 0], [a+b c+d e+0 0], [a+b+c+d e+0],
    [a+b+c+d+e]. Rows 1 … 4 are b (level 0), c+d (level 1) and e (level 0).
    """

    def __init__(
        self, columns: Sequence[Numbers], neutral: Sequence[float], combine: Combine
    ) -> None:
        self._neutral = neutral
        self._combine = combine
        level = tuple(columns)
        self._levels = [level]
        while len(level[0]) > 1:
            if len(level[0]) % 2:
                level = tuple(
                    np.concatenate((item, np.full(1, least, item.dtype)))
                    for item, least in zip(level, neutral, strict=True)
                )
                self._levels[-1] = level
            level = combine(
                tuple(item[0::2] for item in level), tuple(item[1::2] for item in level)
            )
            self._levels.append(level)

    def over(self, start: Indexes, end: Indexes) -> Values:
        """The combined rows start[i] … end[i] − 1 for each i; neutral if the range is empty."""
        chunks = [
            self._combined(start[at : at + QUERIES], end[at : at + QUERIES])
            for at in range(0, len(start), QUERIES)
        ]
        if not chunks:
            return tuple(np.zeros(0, item.dtype) for item in self._levels[0])
        return tuple(np.concatenate(columns) for columns in zip(*chunks, strict=True))

    def _combined(self, start: Indexes, end: Indexes) -> Values:
        """`over` for at most QUERIES ranges.

        From the leaves upwards, a range whose first node is a right child adds this node and starts
        after it; a range whose end is a right child adds the node before its end. The rest of the
        range consists of whole nodes of the level above.
        """
        first, last = start.copy(), np.maximum(start, end)
        left, right = self._neutral_values(len(first)), self._neutral_values(len(first))
        for level in self._levels:
            odd = np.flatnonzero((first < last) & (first & 1 == 1))
            if len(odd):
                self._store(left, odd, self._combine(_at(left, odd), _at(level, first[odd])))
                first[odd] += 1
            odd = np.flatnonzero((first < last) & (last & 1 == 1))
            if len(odd):
                last[odd] -= 1
                self._store(right, odd, self._combine(_at(level, last[odd]), _at(right, odd)))
            if not (first < last).any():
                break
            first >>= 1
            last >>= 1
        return self._combine(left, right)

    def _neutral_values(self, count: int) -> Values:
        return tuple(
            np.full(count, least, item.dtype)
            for least, item in zip(self._neutral, self._levels[0], strict=True)
        )

    @staticmethod
    def _store(target: Values, rows: Indexes, values: Values) -> None:
        for column, found in zip(target, values, strict=True):
            column[rows] = found


def _at(values: Values, rows: Indexes) -> Values:
    return tuple(item[rows] for item in values)
