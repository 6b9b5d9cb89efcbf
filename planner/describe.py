"""The plans of DESCRIBE and SUMMARIZE, and the rows of SHOW ALL TABLES."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlglot import exp

from runnel.catalog import CATALOG, CatalogObject, Mapping, Table, View
from runnel.errors import NotSupportedError
from runnel.planner.bind.query import Binder
from runnel.planner.bind.tables.information_schema import SCHEMA, view_fields
from runnel.planner.explain.ddl import watermark_of
from runnel.planner.parse.statement import parse
from runnel.planner.parse.syntax import Describe, Query, Summarize
from runnel.planner.plans import Plan, QueryPlan, ShowPlan, SummarizePlan
from runnel.relation.nodes import Field
from runnel.sqltypes import Kind, SqlType

Row = tuple[Any, ...]
PlanQuery = Callable[[Binder, Query], Plan]
"""Returns the plan of a query."""

STATISTICS = 9
"""The number of aggregates for each column: values that are not NULL, distinct values, minimum,
maximum, average, standard deviation, and three quartiles."""


def describe(binder: Binder, statement: Describe) -> ShowPlan:
    """The columns of a table, a view or a query; without any of them, all tables."""
    if statement.query is not None:
        fields = binder.statement_query(statement.query).fields
        return ShowPlan(
            what="description",
            rows=tuple(_row(field.name, field.type) for field in fields),
            parameters=binder.parameter_types,
        )
    if statement.name is None:
        return all_tables(binder)
    found = binder.lookup(statement.name.text, statement.name.position)
    rows: tuple[Row, ...]
    if isinstance(found, View):
        rows = tuple(_row(field.name, field.type) for field in binder.view_fields(found))
    else:
        rows = _table_rows(found, found.table)
    return ShowPlan(what="description", name=found.name, rows=rows)


def all_tables(binder: Binder) -> ShowPlan:
    """The tables and views with their columns."""
    rows = []
    for item in binder.snapshot:
        columns = _columns(binder, item)
        rows.append(
            (
                CATALOG,
                SCHEMA,
                item.name,
                [name for name, _ in columns],
                [str(kind) for _, kind in columns],
                _is_temporary(item),
            )
        )
    return ShowPlan(what="all tables", rows=tuple(sorted(rows, key=lambda row: row[2].lower())))


def summarize(binder: Binder, statement: Summarize, plan_query: PlanQuery) -> SummarizePlan:
    """The plan of SUMMARIZE: a query with the statistics of all columns in one row."""
    bound = replace(binder, dependencies={}).statement_query(statement.query)
    if bound.is_unbounded:
        raise NotSupportedError(
            "SUMMARIZE of a stream is not supported: it has no end",
            hint="summarize a table, or aggregate the stream by windows of time",
            position=statement.query.position,
        )
    tree = _statistics(bound.fields, statement.query.expression)
    found = plan_query(binder, replace(statement.query, expression=tree))
    assert isinstance(found, QueryPlan)
    return SummarizePlan(
        query=found, columns=bound.fields, statistics=STATISTICS, parameters=found.parameters
    )


def _row(name: str, kind: SqlType) -> Row:
    return (name, str(kind), "YES", None, None, None)


def _table_rows(item: CatalogObject, table: Table) -> tuple[Row, ...]:
    definition = item.definition if isinstance(item, Mapping) else None
    keys = set(table.key_columns)
    rows = []
    for number, column in enumerate(table.columns):
        if definition is not None and column.hidden:
            continue  # the address of the row, which DuckDB does not show either
        is_nullable, key, default = number not in keys, "PRI" if number in keys else None, None
        if definition is not None:
            lower = column.name.lower()
            is_nullable = definition.is_nullable(column.name)
            default = definition.defaults.get(lower)
            for unique in definition.keys:
                if lower in [name.lower() for name in unique.columns]:
                    key = "PRI" if unique.is_primary else key or "UNI"
        watermark = watermark_of(table, number)
        extra = [
            *(["hidden"] if column.hidden else []),
            *([] if watermark is None else [f"watermark {watermark}"]),
        ]
        rows.append(
            (
                column.name,
                str(column.type),
                "YES" if is_nullable else "NO",
                key,
                default,
                ", ".join(extra) or None,
            )
        )
    for number, computed in enumerate(table.computed, len(table.columns)):
        watermark = watermark_of(table, number)
        note = f"computed as {computed.text}"
        note += "" if watermark is None else f", watermark {watermark}"
        rows.insert(computed.index, (computed.name, str(computed.type), "YES", None, None, note))
    return tuple(rows)


def _columns(binder: Binder, item: CatalogObject) -> list[tuple[str, SqlType]]:
    if isinstance(item, View):
        return [(field.name, field.type) for field in view_fields(binder, item)]
    return [(column.name, column.type) for column in item.table.columns if not column.hidden]


def _is_temporary(item: CatalogObject) -> bool:
    if isinstance(item, Mapping):
        return item.definition is not None and item.definition.is_temporary
    return bool(getattr(item, "temporary", False))


def _statistics(fields: tuple[Field, ...], query: Any) -> Any:
    """The tree of the query that computes the statistics over another one.

    The other query gets columns c0, c1, …, because its own names may be ambiguous.
    """
    items = ["COUNT(*)"]
    for number, field in enumerate(fields):
        items += _aggregates(f"c{number}", field.type)
    names = ", ".join(f"c{number}" for number in range(len(fields)))
    listed = ", ".join(f"{item} AS s{number}" for number, item in enumerate(items))
    parsed = parse(f"SELECT {listed} FROM x AS q({names})")
    assert isinstance(parsed, Query)
    tree = parsed.expression
    for node in tree.walk():
        node.meta.pop("start", None)
        node.meta.pop("end", None)
    table = tree.args["from_"].this
    table.replace(exp.Subquery(this=query.copy(), alias=table.args["alias"]))
    return tree


def _aggregates(name: str, kind: SqlType) -> list[str]:
    """STATISTICS aggregates of a column; NULL for those that its type does not have."""
    null = "CAST(NULL AS VARCHAR)"
    is_plain = not kind.is_nested and kind.kind not in (Kind.JSON, Kind.NULL)
    texts = f"CAST({name} AS VARCHAR)"
    least, most = (f"MIN({name})", f"MAX({name})") if is_plain else (null, null)
    if is_plain and kind.kind is not Kind.VARBINARY:
        least, most = f"CAST({least} AS VARCHAR)", f"CAST({most} AS VARCHAR)"
    distinct = f"APPROX_COUNT_DISTINCT({name if is_plain else texts})"
    average = deviation = null
    quartiles = [null, null, null]
    if kind.is_numeric:
        average = f"CAST(AVG(CAST({name} AS DOUBLE)) AS VARCHAR)"
        deviation = f"CAST(STDDEV_SAMP(CAST({name} AS DOUBLE)) AS VARCHAR)"
    if kind.is_numeric or kind.is_temporal:
        # An interpolated value of another type may have no exact representation in it.
        function = "PERCENTILE_CONT" if kind.kind in (Kind.DOUBLE, Kind.REAL) else "PERCENTILE_DISC"
        quartiles = [
            f"CAST({function}({q}) WITHIN GROUP (ORDER BY {name}) AS VARCHAR)"
            for q in (0.25, 0.5, 0.75)
        ]
    return [f"COUNT({name})", distinct, least, most, average, deviation, *quartiles]
