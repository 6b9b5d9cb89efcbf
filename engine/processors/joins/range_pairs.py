"""Pairs of rows out of ranges: each row of one side with the rows of a stretch of the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from runnel.columns.batches import MAX_ROWS, Indexes


def pairs_in_ranges(starts: Indexes, counts: Indexes) -> Iterator[tuple[Indexes, Indexes, bool]]:
    """The pairs of row i and the places starts[i], starts[i] + 1, …, `counts[i]` of them: at most
    MAX_ROWS pairs at a time, in order of the rows, each time with whether they are the last; at
    least once, perhaps with none."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    for first in range(0, max(total, 1), MAX_ROWS):
        last = min(first + MAX_ROWS, total)
        low, high = np.searchsorted(ends, (first, last - 1), side="right") if total else (0, 0)
        chosen = np.arange(low, min(high + 1, len(counts)))
        begins = ends[chosen] - counts[chosen]
        sizes = np.minimum(ends[chosen], last) - np.maximum(begins, first)
        rows = np.repeat(chosen, sizes)
        within = np.arange(first, last) - np.repeat(begins, sizes)
        yield rows, np.repeat(starts[chosen], sizes) + within, last == total
