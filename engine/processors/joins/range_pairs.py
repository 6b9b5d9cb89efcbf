"""Expands ranges to pairs: each row of one side with a range of positions of the other side."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from runnel.columns.batches import MAX_ROWS, Indexes


def pairs_in_ranges(starts: Indexes, counts: Indexes) -> Iterator[tuple[Indexes, Indexes, bool]]:
    """Yield the pairs of each row i with the counts[i] positions from starts[i] on.

    Each item has the rows and the positions of at most MAX_ROWS pairs, in order of the rows, and a
    flag that is true for the last item. There is at least one item, possibly without pairs.
    """
    # Example: starts = [4, 0, 7] and counts = [2, 0, 1], in one item.
    #
    #   ends    [2, 2, 3]: where the pairs of each row end; begins [0, 2, 2]
    #   chosen  [0, 1, 2]: the rows that have pairs in this item, or are between such rows
    #   sizes   [2, 0, 1]: the number of their pairs in this item; rows = [0, 0, 2]
    #   within  [0, 1, 0]: the index of each pair among the pairs of its row
    #   result  the rows [0, 0, 2] with the positions [4, 5, 7], and True
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
