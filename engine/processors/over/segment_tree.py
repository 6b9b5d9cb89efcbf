"""Combining the values of any range of rows, for very many ranges at once: a segment tree, its
levels as numpy columns.

Building takes about two operations a row, a query about two a level; both are vectorised over rows
and ranges. Sums of floats come out as of a balanced tree, so nothing is lost by taking one range
from another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from runnel.columns.batches import Indexes, Numbers

Values = tuple[Numbers, ...]
Combine = Callable[[Values, Values], Values]

QUERIES = 1 << 15
"""How many ranges are worked on at a time, so that their columns stay in the processor's cache."""


class RangeTree:
    """Over rows of one or more columns. `combine` is associative, and `neutral` changes nothing."""

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
        """The combined rows start[i] … end[i] − 1 for each i; neutral where there are none."""
        parts = [
            self._part(start[at : at + QUERIES], end[at : at + QUERIES])
            for at in range(0, len(start), QUERIES)
        ]
        if not parts:
            return tuple(np.zeros(0, item.dtype) for item in self._levels[0])
        return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))

    def _part(self, start: Indexes, end: Indexes) -> Values:
        first, last = start.copy(), np.maximum(start, end)
        left, right = self._nothing(len(first)), self._nothing(len(first))
        for level in self._levels:
            takes = np.flatnonzero((first < last) & (first & 1 == 1))
            if len(takes):
                self._store(left, takes, self._combine(_at(left, takes), _at(level, first[takes])))
                first[takes] += 1
            takes = np.flatnonzero((first < last) & (last & 1 == 1))
            if len(takes):
                last[takes] -= 1
                self._store(right, takes, self._combine(_at(level, last[takes]), _at(right, takes)))
            if not (first < last).any():
                break
            first >>= 1
            last >>= 1
        return self._combine(left, right)

    def _nothing(self, count: int) -> Values:
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
