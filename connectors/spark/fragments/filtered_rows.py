"""The rows of a fragment of which only some are wanted: by their keys, which are known when the
fragment is about to run.

Few keys stand in the query as a list: Spark looks them up, prunes partitions and files by them, and
reads no row group without one. More of them go to Spark as a table that each of its tasks looks
them up in, behind a range, which prunes as well as a list of so many would. Of too many the range
alone is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from runnel.connector import SourcePartition
from runnel.connectors.spark.session.session import Spark
from runnel.connectors.spark.source import Placing, partitions
from runnel.expressions.evaluate import can_fail, is_volatile
from runnel.expressions.nodes import Expression
from runnel.foreign.fragment import NarrowableRows, Unrenderable
from runnel.processors.joins.key_filter import ORDERED, WantedKeys
from runnel.relation.nodes import Field
from runnel.rendering.render import Rendering
from runnel.rendering.spark.dialect import SPARK
from runnel.sqltypes import Kind, SqlType

MOST_LISTED = 1000
"""So many different values of a key stand in the text."""
LOOSE = 4
"""Lists for each of several keys are enough where so many times the keys wanted pass them, at
most."""

_LOOKED_UP = ORDERED | {Kind.BOOLEAN, Kind.REAL, Kind.DOUBLE}
"""Types whose equality is the same in Spark."""
_LISTED = ORDERED | {Kind.BOOLEAN}
"""Of these Spark's IN means it too: −0 isn't 0 there."""


def can_narrow(keys: Sequence[Expression], width: int) -> bool:
    """Whether Spark can compare such keys, over `width` columns, as our joins do."""
    for key in keys:
        if key.type.kind not in _LOOKED_UP or can_fail(key) or is_volatile(key):
            return False
        try:
            Rendering(SPARK).key(key, _columns(width))
        except Unrenderable:
            return False
    return True


def _columns(width: int) -> list[str]:
    return [f"`c{place}`" for place in range(width)]


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
        self.place: Placing | None = None

    def partitions(
        self, wanted: Sequence[tuple[tuple[Expression, ...], WantedKeys]]
    ) -> Sequence[SourcePartition]:
        if any(keys.is_empty for _, keys in wanted):
            return ()
        fetch = self._spark.fetch(
            partial(self._narrowed, wanted), self.is_ordered, self.description
        )
        return partitions(fetch, self._fields, None, self.place)

    def _narrowed(self, wanted: Sequence[tuple[tuple[Expression, ...], WantedKeys]]) -> Any:
        """The DataFrame of those that are wanted. Run by a thread of the fetch: Spark may take its
        time."""
        frame = self._frame
        for keys, values in wanted:
            frame = self._one(frame, keys, values)
        return frame

    def _one(self, frame: Any, keys: tuple[Expression, ...], wanted: WantedKeys) -> Any:
        columns = _columns(len(self._fields) or 1)
        texts = [self._rendering.expression(key, columns) for key in keys]
        values = wanted.values
        lists = [
            None if values is None else self._list(values.column(place), key.type)
            for place, key in enumerate(keys)
        ]
        conditions = []
        for place, (text, found, key) in enumerate(zip(texts, lists, keys, strict=True)):
            if found is not None:
                conditions.append(f"{text} IN ({', '.join(found)})")
            else:
                conditions += self._range(text, wanted.bounds(place), key.type)
        if conditions:
            frame = frame.filter(" AND ".join(conditions))
        if values is None or self.is_ordered or not _is_loose(lists, values.num_rows):
            return frame
        names = [f"k{place}" for place in range(len(keys))]
        own = [
            f"{self._rendering.key(key, columns)} AS {name}"
            for key, name in zip(keys, names, strict=True)
        ]
        known = self._spark.made(values, wanted.types).toDF(*names)
        same = [
            f"{SPARK.key(name, key.type)} AS {name}" for key, name in zip(keys, names, strict=True)
        ]
        return (
            frame.selectExpr("*", *own)
            .join(known.selectExpr(*same).hint("broadcast"), names, "left_semi")
            .select(*frame.columns)
        )

    def _list(self, values: pa.ChunkedArray, kind: SqlType) -> list[str] | None:
        """The different values of a key as literals; None where they are many, or can't be written
        so."""
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
    """Whether lists for each key by itself let many more keys pass than there are."""
    passing = 1
    for found in lists:
        if found is None:
            return True
        passing *= len(found)
    return passing > LOOSE * rows
