"""The rows of a fragment that have certain keys, which are known when the fragment is about to run.

A few keys are written into the query as a list: Spark looks them up, prunes partitions and files by
them, and reads no row group without one of them. More keys are sent to Spark as a table, in which
each of its tasks looks them up, after a range filter, which prunes as well as such a long list
would. If there are too many keys, only the range is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from runnel.connector import SourcePartition
from runnel.connectors.spark.session.session import Spark
from runnel.connectors.spark.source import LocateError, partitions
from runnel.expressions.evaluate import can_fail, is_volatile
from runnel.expressions.nodes import Expression
from runnel.foreign.fragment import NarrowableRows, Unrenderable
from runnel.processors.joins.key_filter import ORDERED, KeyFilter
from runnel.relation.nodes import Field
from runnel.rendering.render import Rendering
from runnel.rendering.spark.dialect import SPARK
from runnel.sqltypes import Kind, SqlType

MOST_LISTED = 1000
"""The maximum number of distinct values of a key in the text."""
LOOSE = 4
"""Lists for each of several keys suffice if at most this many times as many combinations pass as
there are keys."""

_LOOKED_UP = ORDERED | {Kind.BOOLEAN, Kind.REAL, Kind.DOUBLE}
"""Types whose equality is the same in Spark."""
_LISTED = ORDERED | {Kind.BOOLEAN}
"""Types for which Spark's IN is the same, too; for floats it is not: −0 is not 0 there."""


def can_narrow(keys: Sequence[Expression], width: int) -> bool:
    """Whether Spark can compare such keys, over `width` columns, like Runnel's joins."""
    for key in keys:
        if key.type.kind not in _LOOKED_UP or can_fail(key) or is_volatile(key):
            return False
        try:
            Rendering(SPARK).key(key, _columns(width))
        except Unrenderable:
            return False
    return True


def _columns(width: int) -> list[str]:
    return [f"`c{index}`" for index in range(width)]


class SparkRows(NarrowableRows):
    """A DataFrame of a fragment, not run yet."""

    def __init__(
        self, spark: Spark, frame: Any, rendering: Rendering, fields: Sequence[Field]
    ) -> None:
        self._spark = spark
        self._frame = frame
        self._rendering = rendering
        self._fields = fields
        self.is_ordered = False
        self.description = ""
        self.locate: LocateError | None = None

    def partitions(
        self, filters: Sequence[tuple[tuple[Expression, ...], KeyFilter]]
    ) -> Sequence[SourcePartition]:
        if any(keys.is_empty for _, keys in filters):
            return ()
        fetch = self._spark.fetch(
            partial(self._narrowed, filters), self.is_ordered, self.description
        )
        return partitions(fetch, self._fields, None, self.locate)

    def _narrowed(self, filters: Sequence[tuple[tuple[Expression, ...], KeyFilter]]) -> Any:
        """The filtered DataFrame. Called by a thread of the fetch, since Spark may take long."""
        frame = self._frame
        for keys, values in filters:
            frame = self._one(frame, keys, values)
        return frame

    def _one(self, frame: Any, keys: tuple[Expression, ...], key_filter: KeyFilter) -> Any:
        columns = _columns(len(self._fields) or 1)
        texts = [self._rendering.expression(key, columns) for key in keys]
        values = key_filter.values
        lists = [
            None if values is None else self._list(values.column(index), key.type)
            for index, key in enumerate(keys)
        ]
        conditions = []
        for index, (text, found, key) in enumerate(zip(texts, lists, keys, strict=True)):
            if found is not None:
                conditions.append(f"{text} IN ({', '.join(found)})")
            else:
                conditions += self._range(text, key_filter.bounds(index), key.type)
        if conditions:
            frame = frame.filter(" AND ".join(conditions))
        if values is None or self.is_ordered or not _is_loose(lists, values.num_rows):
            return frame
        names = [f"k{index}" for index in range(len(keys))]
        own = [
            f"{self._rendering.key(key, columns)} AS {name}"
            for key, name in zip(keys, names, strict=True)
        ]
        known = self._spark.made(values, key_filter.types).toDF(*names)
        same = [
            f"{SPARK.values.key(name, key.type)} AS {name}"
            for key, name in zip(keys, names, strict=True)
        ]
        return (
            frame.selectExpr("*", *own)
            .join(known.selectExpr(*same).hint("broadcast"), names, "left_semi")
            .select(*frame.columns)
        )

    def _list(self, values: pa.ChunkedArray, kind: SqlType) -> list[str] | None:
        """The distinct values of a key as literals; None if they are many, or have no literals."""
        if kind.kind not in _LISTED:
            return None
        different = values.unique()
        return self._literals(different, kind) if len(different) <= MOST_LISTED else None

    def _range(
        self, text: str, bounds: tuple[pa.Scalar, pa.Scalar] | None, kind: SqlType
    ) -> list[str]:
        found = None if bounds is None else self._literals(bounds, kind)
        return [] if found is None else [f"{text} >= {found[0]}", f"{text} <= {found[1]}"]

    def _literals(self, values: Any, kind: SqlType) -> list[str] | None:
        try:
            return [self._rendering.literal(value.as_py(), kind) for value in values]
        except (Unrenderable, ValueError, OverflowError):  # a time that Python has none for
            return None


def _is_loose(lists: Sequence[list[str] | None], rows: int) -> bool:
    """Whether lists for each single key let many more combinations pass than there are."""
    passing = 1
    for found in lists:
        if found is None:
            return True
        passing *= len(found)
    return passing > LOOSE * rows
