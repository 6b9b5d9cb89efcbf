"""Arrangements: the rows of a relation by key, with their weights.

An arrangement is a list of runs of geometric sizes. A run has rows in the order of the hashes of
their keys. New rows become a run; a run that is not smaller than the run before it is merged with
it, so a row is merged a logarithmic number of times. Rows whose weights add up to 0 leave the
arrangement when their runs are merged. Reading the rows of some keys costs two binary searches for
each key and run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, Mask, indexes, join_arrays, slices
from runnel.columns.key_hash import Hashes, hash_columns
from runnel.processors.live.consolidation import net_changes, state_batch, weights_of
from runnel.storage.memory_budget import size_of


class Run:
    """Rows in the order of `hashes`.

    hashes: the hashes of the keys.
    columns: the columns, first the keys.
    weights: the weight of each row, never 0.
    has_retractions: whether a weight is negative.
    saved: the batches that snapshots have of the run; None: it is in no snapshot. A snapshot
        recognises them as objects, and does not write them again.
    """

    __slots__ = ("columns", "has_retractions", "hashes", "saved", "weights")

    def __init__(
        self,
        hashes: Hashes,
        columns: tuple[pa.Array, ...],
        weights: Indexes,
        has_retractions: bool,
    ) -> None:
        self.hashes = hashes
        self.columns = columns
        self.weights = weights
        self.has_retractions = has_retractions
        self.saved: list[pa.RecordBatch] | None = None

    @property
    def rows(self) -> int:
        return len(self.hashes)


class Arrangement:
    """Rows by key.

    keys: the number of key columns, which are the first columns; 0: all rows have the same key.
    counts: whether equal rows become one row with the sum of their weights whenever runs are
        merged or read. Otherwise only rows with retractions do.
    """

    def __init__(self, keys: int, *, counts: bool = False) -> None:
        self._keys = keys
        self._counts = counts
        self._runs: list[Run] = []

    @property
    def rows(self) -> int:
        """Number of rows; rows that have not been merged with their retractions count."""
        return sum(run.rows for run in self._runs)

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        return sum(
            run.hashes.nbytes + run.weights.nbytes + sum(map(size_of, run.columns))
            for run in tuple(self._runs)
        )

    def hashes_of(self, keys: Sequence[pa.Array], num_rows: int) -> Hashes:
        """The hashes of keys, by which `rows_with` finds rows."""
        return hash_columns(keys) if self._keys else np.zeros(num_rows, np.uint64)

    def add(self, columns: Sequence[pa.Array], weights: Indexes) -> None:
        """Adds rows with their weights."""
        if not len(weights):
            return
        hashes = self.hashes_of(columns[: self._keys], len(weights))
        run = _sorted(hashes, tuple(columns), weights, has_retractions=bool((weights < 0).any()))
        while self._runs and run.rows >= self._runs[-1].rows:
            run = _merged(self._runs.pop(), run, counts=self._counts)
        if run.rows:
            self._runs.append(run)

    def rows_with(self, hashes: Hashes) -> tuple[list[pa.Array], Indexes] | None:
        """All rows whose keys have one of these hashes, with their weights, consolidated if some
        were retracted; None if there are none. Rows of other keys that share a hash are among
        them."""
        probes = np.unique(hashes)
        parts: list[list[pa.Array]] = []
        weights: list[Indexes] = []
        has_retractions = self._counts
        for run in self._runs:
            found = _positions(run.hashes, probes)
            if len(found):
                rows = indexes(found)
                parts.append([column.take(rows) for column in run.columns])
                weights.append(run.weights[found])
                has_retractions |= run.has_retractions
        if not parts:
            return None
        columns = [join_arrays(same) for same in zip(*parts, strict=True)]
        together = np.concatenate(weights)
        if not has_retractions:
            return columns, together
        kept, totals = net_changes(columns, together)
        rows = indexes(kept)
        return [column.take(rows) for column in columns], totals

    def state(self, name: str, keys: int) -> Iterator[pa.RecordBatch]:
        """The rows for a snapshot; the arguments are as in `state_batch`."""
        for run in self._runs:
            if run.saved is None:
                run.saved = list(slices(state_batch(name, run.columns, run.weights, keys)))
            yield from run.saved

    def restore(self, batch: pa.RecordBatch) -> None:
        """Adds rows of a snapshot."""
        self.add(batch.columns[:-1], weights_of(batch))


def _positions(hashes: Hashes, probes: Hashes) -> Indexes:
    """The positions of all `probes` in sorted `hashes`."""
    # Example: hashes [3, 5, 5, 8], probes [5, 9]. starts = [1, 4], counts = [2, 0];
    # the positions of each are starts + (0, 1, …): [1, 2].
    starts = np.searchsorted(hashes, probes, side="left")
    counts = np.searchsorted(hashes, probes, side="right") - starts
    ends = np.cumsum(counts)
    within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
    positions: Indexes = np.repeat(starts, counts) + within
    return positions


def _sorted(
    hashes: Hashes, columns: tuple[pa.Array, ...], weights: Indexes, *, has_retractions: bool
) -> Run:
    if bool((hashes[1:] >= hashes[:-1]).all()):
        return Run(hashes, columns, weights, has_retractions)
    order = np.argsort(hashes, kind="stable")
    rows = indexes(order)
    taken = tuple(column.take(rows) for column in columns)
    return Run(hashes[order], taken, weights[order], has_retractions)


def _merged(first: Run, second: Run, *, counts: bool) -> Run:
    """One run of the rows of both. Rows with a key that has retractions are consolidated, and all
    rows if `counts`."""
    columns = tuple(join_arrays(both) for both in zip(first.columns, second.columns, strict=True))
    has_retractions = first.has_retractions or second.has_retractions
    merged = _sorted(
        np.concatenate((first.hashes, second.hashes)),
        columns,
        np.concatenate((first.weights, second.weights)),
        has_retractions=has_retractions,
    )
    if not has_retractions and not counts:
        return merged
    return _consolidated(merged, everything=counts)


def _consolidated(run: Run, *, everything: bool) -> Run:
    """The run with equal rows in one, where a row of the same key is retracted, or everywhere."""
    concerned = (
        np.ones(run.rows, np.bool_) if everything else _with_key_of(run.hashes, run.weights < 0)
    )
    positions = np.flatnonzero(concerned)
    rows = indexes(positions)
    kept, totals = net_changes(
        [column.take(rows) for column in run.columns], run.weights[positions]
    )
    weights = run.weights.copy()
    weights[positions] = 0
    weights[positions[kept]] = totals
    left = np.flatnonzero(weights)
    taken = indexes(left)
    columns = tuple(column.take(taken) for column in run.columns)
    weights = weights[left]
    return Run(run.hashes[left], columns, weights, bool((weights < 0).any()))


def _with_key_of(hashes: Hashes, marked: Mask) -> Mask:
    """Whether each row has the hash of a marked row; `hashes` are sorted."""
    found = hashes[marked]
    at = np.minimum(np.searchsorted(found, hashes), len(found) - 1)
    result: Mask = found[at] == hashes
    return result
