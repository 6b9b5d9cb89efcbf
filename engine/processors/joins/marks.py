"""Finds the rows for which `x IN (…)` is unknown: no row is equal, but a NULL might be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runnel.columns.batches import MAX_ROWS, Indexes, Mask, validity
from runnel.processors.grouping.row_identity import same
from runnel.processors.joins.index import all_valid

Condition = Callable[[Indexes, Indexes], Mask]
"""Returns a mask of the pairs of probe and build rows for which the join condition is true."""


@dataclass(slots=True)
class BuildFacts:
    """Facts about all build rows.

    rows: their number.
    has_null: whether any of their keys is NULL.
    """

    rows: int = 0
    has_null: bool = False


class UnknownMatches:
    """Finds the probe rows for which a build row is neither equal nor different.

    That is so if in each key the two are equal or one of them is NULL.

    build_keys: the key columns of the build rows.
    num_rows: the number of build rows.
    facts: the facts about all build rows, if these are only a share of them.
    """

    def __init__(
        self, build_keys: Sequence[pa.Array], num_rows: int, facts: BuildFacts | None = None
    ) -> None:
        self._build_keys = build_keys
        self._num_rows = num_rows
        valid = all_valid(build_keys)
        self._with_null = np.zeros(0, np.int64) if valid is None else np.flatnonzero(~valid)
        self._facts = facts or BuildFacts(num_rows, len(self._with_null) > 0)

    def among(self, keys: Sequence[pa.Array], rows: Indexes, condition: Condition | None) -> Mask:
        """Return a mask of the probe rows `rows` for which the match is unknown.

        None of these rows may have an equal build row.
        """
        valid = all_valid(keys)
        has_null = np.zeros(len(rows), np.bool_) if valid is None else ~valid[rows]
        if not self._facts.rows:
            return np.zeros(len(rows), np.bool_)
        if len(keys) == 1 and condition is None:
            return has_null | self._facts.has_null
        result = np.zeros(len(rows), np.bool_)
        # A probe row without a NULL can only be unknown because of a build row with a NULL.
        for chosen, build in (
            (np.flatnonzero(has_null), np.arange(self._num_rows)),
            (np.flatnonzero(~has_null), self._with_null),
        ):
            if not len(build):
                continue
            step = max(1, MAX_ROWS // len(build))
            for start in range(0, len(chosen), step):
                part = chosen[start : start + step]
                result[part] = self._any_unknown(keys, rows[part], build, condition)
        return result

    def _any_unknown(
        self, keys: Sequence[pa.Array], probe: Indexes, build: Indexes, condition: Condition | None
    ) -> Mask:
        """Return for each probe row whether any of the build rows might be equal.

        All pairs are compared, about MAX_ROWS at a time.
        """
        # Example: the probe rows [3, 4] and the build rows [0, 1, 2]. The pairs are
        # first = [3, 3, 3, 4, 4, 4] and second = [0, 1, 2, 0, 1, 2]. If only pair 4 (rows 4 and 1)
        # might be equal, hits = [4], and 4 // 3 = 1 is the index of its probe row.
        result = np.zeros(len(probe), np.bool_)
        for start in range(0, len(build), MAX_ROWS):
            part = build[start : start + MAX_ROWS]
            first, second = np.repeat(probe, len(part)), np.tile(part, len(probe))
            possible = np.ones(len(first), np.bool_)
            for mine, other in zip(keys, self._build_keys, strict=True):
                possible &= (
                    same([mine], first, [other], second)
                    | ~_valid(mine)[first]
                    | ~_valid(other)[second]
                )
            hits = np.flatnonzero(possible)
            if condition is not None and len(hits):
                hits = hits[condition(first[hits], second[hits])]
            result[hits // len(part)] = True
        return result


def _valid(array: pa.Array) -> Mask:
    valid = validity(array)
    return np.ones(len(array), np.bool_) if valid is None else valid
