"""The data files of one version of a table (Delta, Iceberg), and pruning of files by a predicate.

A table's metadata has, for each file, the values of its partition, and the minimum and maximum of
its columns. A file is pruned only if these prove that none of its rows satisfies the predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from runnel.connectors.comparisons import comparisons
from runnel.connectors.files.columnar.row_groups import overlaps
from runnel.connectors.files.hive.paths import matching_files
from runnel.connectors.files.storage import DataFile
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import Expression, conjuncts

LONGEST_BOUND = 32
"""Writers truncate longer texts; not all of them round the maximum up."""


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A data file.

    file: its path and size.
    rows: its number of rows; None if it is unknown.
    constants: arrays of one value, by column index, for columns of the table with one value for all
        rows.
    live_rows: for each row, in order, whether it still exists; rows after its end exist. None: all
        rows exist.
    """

    file: DataFile
    rows: int | None
    constants: Mapping[int, pa.Array]
    live_rows: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of one column.

    least: the minimum of each file; None if it is unknown.
    largest: the maximum of each file; None if it is unknown.
    only_null: for each file, whether all values are NULL.
    """

    least: Sequence[Any]
    largest: Sequence[Any]
    only_null: Sequence[bool]


def _no_bounds(index: int) -> Bounds | None:
    return None


@dataclass(frozen=True, slots=True)
class FileSet:
    """The files of a table at one version.

    version: the version.
    files: its files.
    bounds: returns the bounds of a column by its index; None if they are not reliable.
    """

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
        positions = {index: position for position, index in enumerate(shared)}
        selected = matching_files(predicate, positions, values, len(self.files), context)
        for test in comparisons(predicate, context):
            bounds = None if test.column.index in positions else self.bounds(test.column.index)
            if bounds is not None:
                selected = [
                    i for i in selected if _may_match(bounds, i, test.operation, test.values)
                ]
        return [self.files[i] for i in selected]


def _may_match(bounds: Bounds, file: int, operation: str, values: Sequence[Any]) -> bool:
    if bounds.only_null[file]:
        return False
    least, largest = bounds.least[file], bounds.largest[file]
    if least is None or largest is None:
        return True
    if isinstance(largest, str | bytes) and len(largest) >= LONGEST_BOUND:
        # The maximum may be truncated. Only this side is known: texts that start with it are at
        # least as large.
        return operation not in ("eq", "lt", "le") or any(
            value is not None and overlaps(least, max(largest, value), operation, value)
            for value in values
        )
    try:
        return any(overlaps(least, largest, operation, value) for value in values)
    except (TypeError, ValueError, ArithmeticError):
        return True


def first_files(files: Sequence[LakeFile], limit: int | None) -> Sequence[LakeFile]:
    """The first files that have at least `limit` rows together."""
    if limit is None:
        return files
    rows = 0
    for number, file in enumerate(files, 1):
        if file.rows is None or file.live_rows is not None:
            return files
        rows += file.rows
        if rows >= limit:
            return files[:number]
    return files
