"""The data files of a table format (Delta, Iceberg) at one version, and which of them a predicate
can leave out.

A table's metadata tells of each file the values that its whole partition has, and the smallest and
largest value of its columns. A file is left out only where these prove that none of its rows
fulfils the predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from runnel.connectors.comparisons import comparisons
from runnel.connectors.files.columnar.row_groups import overlaps
from runnel.connectors.files.hive.paths import kept_files
from runnel.connectors.files.storage import DataFile
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import Expression, conjuncts

LONGEST_BOUND = 32
"""Writers cut longer texts, not all of them so that the largest stays the largest."""


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A data file. `constants`: arrays of one value, for columns of the table (by index) that are
    the same in all rows.
    `kept`: for each row, in order, whether it is still there; rows behind its end are."""

    file: DataFile
    rows: int | None
    constants: Mapping[int, pa.Array]
    kept: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one column, for each file: the smallest and the largest value (None: not known), and
    whether all are NULL."""

    least: Sequence[Any]
    largest: Sequence[Any]
    only_null: Sequence[bool]


def _no_bounds(index: int) -> Bounds | None:
    return None


@dataclass(frozen=True, slots=True)
class FileSet:
    """Files of a table at one version; `bounds` gives those of a column by index, None where they
    aren't to be trusted."""

    version: int
    files: Sequence[LakeFile]
    bounds: Callable[[int], Bounds | None] = _no_bounds

    def matching(self, predicate: Expression | None, context: EvaluationContext) -> list[LakeFile]:
        """The files that may have rows for a predicate over the table's columns."""
        if not conjuncts(predicate) or not self.files:
            return list(self.files)
        shared = [
            index
            for index in self.files[0].constants
            if all(index in file.constants for file in self.files)
        ]
        values = [
            pa.concat_arrays([file.constants[index] for file in self.files]) for index in shared
        ]
        places = {index: place for place, index in enumerate(shared)}
        kept = kept_files(predicate, places, values, len(self.files), context)
        for test in comparisons(predicate, context):
            bounds = None if test.column.index in places else self.bounds(test.column.index)
            if bounds is not None:
                kept = [i for i in kept if _may_match(bounds, i, test.operation, test.values)]
        return [self.files[i] for i in kept]


def _may_match(bounds: Bounds, file: int, operation: str, values: Sequence[Any]) -> bool:
    if bounds.only_null[file]:
        return False
    least, largest = bounds.least[file], bounds.largest[file]
    if least is None or largest is None:
        return True
    if isinstance(largest, str | bytes) and len(largest) >= LONGEST_BOUND:
        # Only the smaller end is sure: whatever begins like it is at least as large.
        return operation not in ("eq", "lt", "le") or any(
            value is not None and overlaps(least, max(largest, value), operation, value)
            for value in values
        )
    try:
        return any(overlaps(least, largest, operation, value) for value in values)
    except (TypeError, ValueError, ArithmeticError):
        return True


def first_files(files: Sequence[LakeFile], limit: int | None) -> Sequence[LakeFile]:
    """As many files as have `limit` rows together."""
    if limit is None:
        return files
    rows = 0
    for number, file in enumerate(files, 1):
        if file.rows is None or file.kept is not None:
            return files
        rows += file.rows
        if rows >= limit:
            return files[:number]
    return files
