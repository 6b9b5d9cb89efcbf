"""Two connections with the same tables, on Spark and here, and what a statement gives on each: values, types, order, errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

import runnel
from runnel.catalog import View
from runnel.connectors.spark_engine import is_sorted
from runnel.sqltypes import SqlType
from runnel.statements.arguments import argument_types
from runnel.testing.rows import rows_of, same_value
from tests.spark_process import new_session
from tests.streams.generated import agree

PATIENCE = 120.0
SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
}
"""Of the session that the program made: none of them may matter."""


class Answer(NamedTuple):
    """What a statement gave: `error` instead of the others where it failed."""

    types: tuple[SqlType, ...]
    rows: list[tuple[Any, ...]]
    error: runnel.Error | None = None


class Difference(NamedTuple):
    """What is wrong with a statement."""

    sql: str
    what: str

    def __str__(self) -> str:
        return f"{self.sql}\n  {self.what}"


class NoTwinError(Exception):
    """A table that Spark can't hold as it is."""


class Pair:
    """`on_spark` counts the statements of which Spark ran a part, `own` the others, which weren't run there."""

    def __init__(self) -> None:
        self.session = new_session(SETTINGS)
        self.here = runnel.connect(pushdown=False)
        self.there = runnel.connect(spark=self.session)
        self.ours = new_session(
            {
                "spark.sql.timestampType": "TIMESTAMP_NTZ",
                "spark.sql.session.timeZone": "America/New_York",
                "spark.sql.ansi.enabled": "true",
                "spark.sql.shuffle.partitions": "1",
            }
        )
        """A session for our SQL without a connection; its zone is neither ours nor UTC, as nothing may depend on it."""
        self.on_spark = 0
        self.own = 0
        self.failed_alike = 0
        self._frames: dict[tuple[Any, ...], Any] = {}
        self._known: dict[str, tuple[Any, ...]] = {}

    def close(self) -> None:
        self.here.close()
        self.there.close()
        for frame in self._frames.values():
            frame.unpersist()

    def put(self, name: str, rows: pa.Table, types: Sequence[SqlType] | None = None) -> None:
        """Makes a table known to both, by the name. NoTwinError where a column would have another type."""
        key = (_content(rows), tuple(rows.column_names))
        if self._known.get(name) == key:
            return
        self._known.pop(name, None)
        self.here.register(name, rows)
        if key not in self._frames:
            try:
                self._frames[key] = self.session.createDataFrame(rows).coalesce(1).cache()
            except Exception as error:
                raise NoTwinError(f"{name}: {str(error)[:80]}") from None
        self.there.register(name, self._frames[key])
        found = [tuple(column.type for column in _table(item, name).columns) for item in (self.here, self.there)]
        if found[0] != found[1] or (types is not None and found[0] != tuple(types)):
            raise NoTwinError(f"{name}: {', '.join(map(str, types or found[0]))} become {', '.join(map(str, found[1]))}")
        self._known[name] = key

    def view(self, view: View) -> None:
        """Makes a view known to both."""
        for connection in (self.here, self.there):
            connection._database.change(put=view)

    def forget_views(self, names: Sequence[str]) -> None:
        for connection in (self.here, self.there):
            for name in names:
                connection.execute(f'DROP VIEW IF EXISTS "{name}"')

    def is_on_spark(self, sql: str, arguments: Sequence[Any] = ()) -> bool:
        """Whether Spark runs a part of the query."""
        lines = self.there.execute(f"EXPLAIN (PHYSICAL) {sql}", tuple(arguments)).fetchall()
        return any("Fragment on Spark" in line for (line,) in lines)

    def difference(self, sql: str, arguments: Sequence[Any] = (), *, is_ordered: bool | None = None) -> Difference | None:
        """What a query gives otherwise on Spark; None where nothing, or where Spark runs no part of it. `is_ordered` says
        whether its order is that of whole rows; where nobody knows, a query that is sorted is taken for such."""
        wanted = answer(self.here, sql, arguments)
        try:
            taken = self.is_on_spark(sql, arguments)
        except runnel.Error as error:
            return _of_errors(sql, wanted, error)
        if not taken:
            self.own += 1
            return None
        self.on_spark += 1
        found = answer(self.there, sql, arguments)
        if wanted.error is not None or found.error is not None:
            self.failed_alike += wanted.error is not None
            return _of_errors(sql, wanted, found.error, found)
        if found.types != wanted.types:
            return Difference(sql, f"types {', '.join(map(str, found.types))}, not {', '.join(map(str, wanted.types))}")
        if is_ordered is None:
            plan: Any = self.here._database.prepare(sql, argument_types(tuple(arguments)))
            is_ordered = hasattr(plan, "logical") and is_sorted(plan.logical)
        return compared(sql, found.rows, wanted.rows, is_ordered=is_ordered)


def answer(connection: runnel.Connection, sql: str, arguments: Sequence[Any] = ()) -> Answer:
    """What a query gives on a connection."""
    try:
        cursor = connection.execute(sql, tuple(arguments), timeout=PATIENCE)
        rows = rows_of(cursor.fetch_arrow_table())
        return Answer(tuple(column.type_code for column in cursor.description or ()), rows)
    except runnel.Error as error:
        return Answer((), [], error)


def compared(sql: str, found: list[Any], wanted: list[Any], *, is_ordered: bool) -> Difference | None:
    """How the rows differ, whose DOUBLEs may by 1e-9."""
    if not agree(found, wanted, exact=True):
        more = list((Counter(map(repr, found)) - Counter(map(repr, wanted))).elements())
        less = list((Counter(map(repr, wanted)) - Counter(map(repr, found))).elements())
        return Difference(sql, f"{len(found)} rows, not {len(wanted)}; on Spark {more[:3]}, here {less[:3]}")
    if is_ordered and not all(same_value(one, two, 1e-9) for one, two in zip(found, wanted, strict=True)):
        at = next(i for i, (one, two) in enumerate(zip(found, wanted, strict=True)) if not same_value(one, two, 1e-9))
        return Difference(sql, f"order: row {at} is {found[at]}, not {wanted[at]}")
    return None


def _of_errors(sql: str, wanted: Answer, found: runnel.Error | None, other: Answer | None = None) -> Difference | None:
    """Errors must be of the same class."""
    if wanted.error is None:
        return Difference(sql, f"fails on Spark only: {found!r}")
    if found is None:
        return Difference(sql, f"fails here only: {wanted.error!r}; on Spark {other.rows[:3] if other else ''}")
    if type(found) is not type(wanted.error):
        return Difference(
            sql, f"{type(found).__name__}: {found.message}; here {type(wanted.error).__name__}: {wanted.error.message}"
        )
    return None


def _table(connection: runnel.Connection, name: str) -> Any:
    found: Any = connection._database.catalog.snapshot.get(name)
    return found.table


def _content(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return bytes(sink.getvalue())
