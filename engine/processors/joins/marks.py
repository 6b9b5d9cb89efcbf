"""When `x IN (…)` is unknown: no row is equal, but a NULL on either side might be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runnel.columns.batches import MAX_ROWS, Indexes, Mask, validity
from runnel.processors.grouping.row_identity import same
from runnel.processors.joins.index import all_valid

Condition = Callable[[Indexes, Indexes], Mask]
"""For pairs of probe and build rows, which of them count."""


@dataclass(slots=True)
class BuildFacts:
    """What must be known of all build rows: how many there are, and whether there is a NULL among
    their keys."""

    rows: int = 0
    has_null: bool = False


class UnknownMatches:
    """Finds the probe rows for which a build row is neither equal nor different: in each key the
    two are equal or one of them is NULL."""

    def __init__(
        self, build_keys: Sequence[pa.Array], num_rows: int, facts: BuildFacts | None = None
    ) -> None:
        self._build_keys = build_keys
        self._num_rows = num_rows
        valid = all_valid(build_keys)
        self._with_null = np.zeros(0, np.int64) if valid is None else np.flatnonzero(~valid)
        self._facts = facts or BuildFacts(num_rows, len(self._with_null) > 0)

    def among(self, keys: Sequence[pa.Array], rows: Indexes, condition: Condition | None) -> Mask:
        """Which of the probe rows `rows`, none of which has an equal build row, are unknown."""
        valid = all_valid(keys)
        has_null = np.zeros(len(rows), np.bool_) if valid is None else ~valid[rows]
        if not self._facts.rows:
            return np.zeros(len(rows), np.bool_)
        if len(keys) == 1 and condition is None:
            return has_null | self._facts.has_null
        result = np.zeros(len(rows), np.bool_)
        # A probe row without a NULL can only be unknown through a build row with one.
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
        """For each probe row, whether any of the build rows might be equal; all pairs are looked
        at, MAX_ROWS at a time."""
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
