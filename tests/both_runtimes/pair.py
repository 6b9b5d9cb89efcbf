"""Two connections with the same tables, on Spark and here, and what a statement gives on each:
values, types, order, errors."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

import runnel
from runnel.catalog import View
from runnel.connectors.spark.fragments.fragment import is_sorted
from runnel.foreign.fragment import Unrenderable
from runnel.relation.nodes import Aggregate, Relation, Scan, walk
from runnel.relation.over import Window
from runnel.sqltypes import SqlType
from runnel.statements.arguments import argument_types
from runnel.testing.rows import rows_of, same_value
from tests.both_runtimes.tally import Tally
from tests.spark_process import new_session
from tests.streams.random_queries.generated import agree

PATIENCE = 120.0
SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
}
"""Of the session that the program made: none of them may matter."""
APPROXIMATE = 1e-9
"""How far sums of floats may be apart, relatively."""


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
    """For one thread. `tally` counts the statements of which Spark runs a part; the others aren't
    run there."""

    def __init__(
        self, tally: Tally | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        self.tally = tally or Tally()
        self.session = new_session({**SETTINGS, **(settings or {})})
        self.here = runnel.connect(pushdown=False)
        self.there = runnel.connect(spark=self.session)
        self._frames: dict[tuple[Any, ...], Any] = {}
        self._known: dict[str, tuple[Any, ...]] = {}

    def close(self) -> None:
        self.forget_rows()
        self.here.close()
        self.there.close()

    def put(self, name: str, rows: pa.Table, types: Sequence[SqlType] | None = None) -> None:
        """Makes a table known to both, by the name. NoTwinError where a column would have another
        type."""
        key = (_content(rows), tuple(rows.column_names))
        if self._known.get(name) == key:
            return
        self._known.pop(name, None)
        self.here.register(name, rows)
        if key not in self._frames:
            try:
                self._frames[key] = self.session.createDataFrame(rows).coalesce(1).cache()
            except Exception as error:
                raise NoTwinError(_why_not(rows, types, str(error))) from None
        self.there.register(name, self._frames[key])
        found = [
            tuple(column.type for column in _table(item, name).columns)
            for item in (self.here, self.there)
        ]
        wanted = found[0] if types is None else tuple(types)
        changed = sorted(
            {f"{one} is {two}" for one, two in zip(wanted, found[1], strict=True) if one != two}
        )
        if changed or found[0] != wanted:
            raise NoTwinError(f"in a DataFrame {', '.join(changed) or 'it is another'}")
        self._known[name] = key

    def forget_rows(self) -> None:
        """Lets go of the tables' rows: Spark looks through all that it keeps whenever it plans."""
        for frame in self._frames.values():
            frame.unpersist()
        self._frames.clear()
        self._known.clear()

    def view(self, view: View) -> None:
        """Makes a view known to both."""
        for connection in (self.here, self.there):
            connection._database.change(put=view)

    def forget_views(self, names: Sequence[str]) -> None:
        for connection in (self.here, self.there):
            for name in names:
                connection.execute(f'DROP VIEW IF EXISTS "{name}"')

    def difference(
        self, sql: str, arguments: Sequence[Any] = (), *, is_ordered: bool | None = None
    ) -> Difference | None:
        """What a query gives otherwise on Spark; None where nothing, or where Spark runs no part of
        it. `is_ordered` says whether its order is that of whole rows; where nobody knows, a query
        that is sorted is taken for such."""
        try:
            return self._difference(sql, arguments, is_ordered)
        except Exception as error:
            return Difference(sql, f"{type(error).__name__}, which is none of ours: {error}")

    def _difference(
        self, sql: str, arguments: Sequence[Any], is_ordered: bool | None
    ) -> Difference | None:
        wanted = answer(self.here, sql, arguments)
        try:
            lines = [
                line
                for (line,) in self.there.execute(
                    f"EXPLAIN (PHYSICAL) {sql}", tuple(arguments)
                ).fetchall()
            ]
        except runnel.Error as error:
            return self._of_errors(sql, wanted, Answer((), [], error))
        fragments = [line for line in lines if "Fragment on Spark" in line]
        if not fragments:
            self.tally.leave(self._left(sql, arguments))
            return None
        for reason in {_told(line, "stopped by: ") for line in fragments} - {""}:
            self.tally.cut(reason)
        found = answer(self.there, sql, arguments)
        if wanted.error is not None or found.error is not None:
            return self._of_errors(sql, wanted, found)
        self.tally.same()
        if found.types != wanted.types:
            return Difference(
                sql,
                f"types {', '.join(map(str, found.types))}, not "
                f"{', '.join(map(str, wanted.types))}",
            )
        plan = self._plan(self.here, sql, arguments)
        if is_ordered is None:
            is_ordered = plan is not None and is_sorted(plan)
        tolerance = APPROXIMATE if plan is None or has_sums(plan) else 0.0
        return compared(sql, found.rows, wanted.rows, is_ordered=is_ordered, tolerance=tolerance)

    def _of_errors(self, sql: str, wanted: Answer, found: Answer) -> Difference | None:
        self.tally.same()
        problem = self.tally.errors(wanted.error, found.error)
        return None if problem is None else Difference(sql, problem)

    def _plan(
        self, connection: runnel.Connection, sql: str, arguments: Sequence[Any]
    ) -> Relation | None:
        plan: Any = connection._session.prepare(sql, argument_types(tuple(arguments)))
        found: Relation | None = getattr(plan, "logical", None)
        return found

    def _left(self, sql: str, arguments: Sequence[Any]) -> str:
        """Why Spark runs no part of a query."""
        plan = self._plan(self.there, sql, arguments)
        scans = [] if plan is None else [node for node in walk(plan) if isinstance(node, Scan)]
        if plan is None or not scans:
            return "its answer is known without reading a table"
        engine: Any = next(
            (node.table.engine for node in scans if node.table.engine is not None), None
        )
        if engine is None:
            return "none of its tables is on Spark"
        try:
            engine.fragment(plan)
        except Unrenderable as refused:
            return refused.what
        return "whole rows, read as they are"


def has_sums(plan: Relation) -> bool:
    """Whether it has aggregates that give floats, which depend on the order of addition."""
    for node in walk(plan):
        calls = [item.call for item in node.calls] if isinstance(node, Window) else []
        calls += node.aggregates if isinstance(node, Aggregate) else ()
        if any(call.type.is_approximate for call in calls):
            return True
    return False


def answer(connection: runnel.Connection, sql: str, arguments: Sequence[Any] = ()) -> Answer:
    """What a query gives on a connection."""
    try:
        cursor = connection.execute(sql, tuple(arguments), timeout=PATIENCE)
        rows = rows_of(cursor.fetch_arrow_table())
        return Answer(tuple(column.type_code for column in cursor.description or ()), rows)
    except runnel.Error as error:
        return Answer((), [], error)


def compared(
    sql: str,
    found: list[Any],
    wanted: list[Any],
    *,
    is_ordered: bool,
    tolerance: float = APPROXIMATE,
) -> Difference | None:
    """How the rows differ, whose floats may by `tolerance`."""
    is_same = agree(found, wanted, exact=True) if tolerance else _counted(found) == _counted(wanted)
    if not is_same:
        more = list((Counter(map(repr, found)) - Counter(map(repr, wanted))).elements())
        less = list((Counter(map(repr, wanted)) - Counter(map(repr, found))).elements())
        return Difference(
            sql, f"{len(found)} rows, not {len(wanted)}; on Spark {more[:3]}, here {less[:3]}"
        )
    if is_ordered and not all(
        same_value(one, two, tolerance) for one, two in zip(found, wanted, strict=True)
    ):
        at = next(
            i
            for i, (one, two) in enumerate(zip(found, wanted, strict=True))
            if not same_value(one, two, tolerance)
        )
        return Difference(sql, f"order: row {at} is {found[at]}, not {wanted[at]}")
    return None


def _counted(rows: list[Any]) -> Counter[str]:
    """Rows by their text; -0.0 is 0.0."""
    return Counter(
        repr(tuple(value + 0.0 if isinstance(value, float) else value for value in row))
        for row in rows
    )


def _told(line: str, what: str) -> str:
    """A property of an operator in a line of EXPLAIN."""
    return line.partition(what)[2].partition("; sql:")[0].partition("; differs:")[0]


def _why_not(rows: pa.Table, types: Sequence[SqlType] | None, message: str) -> str:
    shown = ", ".join(sorted(set(map(str, rows.schema.types if types is None else types))))
    return f"a DataFrame of {shown}: {message[:80]}"


def _table(connection: runnel.Connection, name: str) -> Any:
    found: Any = connection._database.catalog.snapshot.get(name)
    return found.table


def _content(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return hashlib.sha256(sink.getvalue()).digest()
