"""The rows of DESCRIBE and SHOW ALL TABLES, and SUMMARIZE as a query: of statements, and of items
of FROM such as `(DESCRIBE t)`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.base.schemas import VIEW_TYPE
from runnel.catalog import CatalogObject, Mapping, Table, View
from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.expressions.nodes import Column, Literal
from runnel.planner.bind.tables.information_schema import nullable, position_of, view_fields
from runnel.planner.explain.ddl import watermark_of
from runnel.planner.parse.statement import parse
from runnel.planner.parse.syntax import Describe, Name, Query, Show, Summarize
from runnel.relation.nodes import Field, Project, Relation, Scan, Values
from runnel.sqltypes import BOOLEAN, VARCHAR, Kind, SqlType, array

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder

Row = tuple[Any, ...]

DESCRIPTION = tuple(
    Field(name, VARCHAR) for name in "column_name column_type null key default extra".split()
)
"""The columns of DESCRIBE."""

ALL_TABLES = (
    *(Field(name, VARCHAR) for name in ("database", "schema", "name")),
    Field("column_names", array(VARCHAR)),
    Field("column_types", array(VARCHAR)),
    Field("temporary", BOOLEAN),
)
"""The columns of SHOW ALL TABLES."""

_NAMES = ("values", "approx_unique", "min", "max", "avg", "std", "q25", "q50", "q75")
"""The aggregates of each column: values that are not NULL, distinct values, minimum, maximum,
average, standard deviation, and three quartiles."""

_STATISTICS = len(_NAMES)


def rows_of_statement(binder: StatementBinder, start: int, end: int) -> Relation:
    """The rows of the DESCRIBE, SUMMARIZE or SHOW that is the section of the statement's text from
    `start` to `end`, in FROM."""
    before = re.sub(r"[^\n]", " ", binder.sql[:start])  # so that positions point into the whole
    text = before + binder.sql[start:end]
    statement = parse(text, keeps_public=bool(binder.snapshot.path))
    position: Position = statement.position
    if isinstance(statement, Summarize):
        return binder.query(summarize(binder, statement).expression, None)
    if isinstance(statement, Query):
        return binder.query(statement.expression, None)
    if isinstance(statement, Show) and statement.what == "all tables":
        return _values(ALL_TABLES, all_tables(binder), position)
    if not isinstance(statement, Describe) or (statement.query or statement.name) is None:
        raise NotSupportedError(
            "this list is not supported in FROM",
            hint="DESCRIBE of a table, SHOW TABLES and SHOW JOBS are; for all columns read "
            "information_schema.columns",
            position=position,
        )
    fields, rows = description(binder, statement)
    return _values(fields, rows, position)


def _values(fields: tuple[Field, ...], rows: tuple[Row, ...], position: Position) -> Relation:
    """Rows of literals."""
    literals = tuple(
        tuple(Literal(value=v, type=f.type) for v, f in zip(row, fields, strict=True))
        for row in rows
    )
    return Values(rows=literals, columns=fields, position=position)


def description(
    binder: StatementBinder, statement: Describe
) -> tuple[tuple[Field, ...], tuple[Row, ...]]:
    """The columns of a table, a view or a query; without any of them, all tables."""
    if statement.query is not None:
        return DESCRIPTION, _query_rows(binder.statement_query(statement.query))
    if statement.name is None:
        return ALL_TABLES, all_tables(binder)
    name = statement.name
    try:
        found = binder.lookup(name.text, name.position)
    except ProgrammingError:
        rows = _rows_of_view(binder, name)
        if rows is None:
            raise
        return DESCRIPTION, rows
    if isinstance(found, View):
        fields = binder.view_fields(found)
        return DESCRIPTION, tuple(_row(field.name, field.type) for field in fields)
    return DESCRIPTION, _table_rows(found, found.table)


def _rows_of_view(binder: StatementBinder, name: Name) -> tuple[Row, ...] | None:
    """The columns of a view that only FROM finds, such as information_schema.tables, pg_tables and
    duckdb_tables; None if there is none of that name."""
    catalog, schema = ("", "", *name.qualifiers)[-2:]
    tree = exp.select("*").from_(exp.table_(name.local, schema or None, catalog or None))
    try:
        return _query_rows(binder.query(tree, None))
    except ProgrammingError:
        return None


def all_tables(binder: StatementBinder) -> tuple[Row, ...]:
    """The tables and views with their columns."""
    rows = []
    for item in binder.snapshot:
        columns = _columns(binder, item)
        rows.append(
            (
                *position_of(item),
                [name for name, _ in columns],
                [str(kind) for _, kind in columns],
                is_temporary(item),
            )
        )
    return tuple(sorted(rows, key=lambda row: [text.lower() for text in row[:3]]))


def summarize(binder: StatementBinder, statement: Summarize) -> Query:
    """The query with one row of statistics for each column, in one scan."""
    bound = binder.inside(binder.common_tables).statement_query(statement.query)
    if bound.is_unbounded:
        raise NotSupportedError(
            "SUMMARIZE of a stream is not supported: it has no end",
            hint="summarize a table, or aggregate the stream by windows of time",
            position=statement.query.position,
        )
    tree = _statistics(bound.fields, statement.query.expression)
    return replace(statement.query, expression=_by_column(bound.fields, tree))


def _row(name: str, kind: SqlType, extra: str | None = None) -> Row:
    return (name, str(kind), "YES", None, None, extra)


def _query_rows(relation: Relation) -> tuple[Row, ...]:
    """The columns of a query; of columns of a table, such as a file, also how they are read."""
    table = relation.input if isinstance(relation, Project) else None
    notes: list[str | None] = [None] * len(relation.fields)
    if isinstance(relation, Project) and isinstance(table, Scan):
        for number, item in enumerate(relation.expressions):
            if isinstance(item, Column):
                notes[number] = table.table.column_note(table.columns[item.index])
    return tuple(
        _row(field.name, field.type, note)
        for field, note in zip(relation.fields, notes, strict=True)
    )


def _table_rows(item: CatalogObject, table: Table) -> tuple[Row, ...]:
    definition = item.definition if isinstance(item, Mapping) else None
    keys = set(table.key_columns)
    rows = []
    for number, column in enumerate(table.columns):
        if definition is not None and column.hidden:
            continue  # the address of the row, which DuckDB does not show either
        # The key of a materialized view, such as a column of GROUP BY, may be NULL.
        word, is_fixed = ("UNI", False) if table.connector == VIEW_TYPE else ("PRI", number in keys)
        is_nullable, key, default = not is_fixed, word if number in keys else None, None
        is_nullable = is_nullable and nullable(item, column.name) == "YES"
        if definition is not None:
            lower = column.name.lower()
            default = definition.defaults.get(lower)
            for unique in definition.keys:
                if lower in [name.lower() for name in unique.columns]:
                    key = "PRI" if unique.is_primary else key or "UNI"
        watermark, note = watermark_of(table, number), table.column_note(number)
        extra = [
            *(["hidden"] if column.hidden else []),
            *([] if watermark is None else [f"watermark {watermark}"]),
            *([] if note is None else [note]),
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


def _columns(binder: StatementBinder, item: CatalogObject) -> list[tuple[str, SqlType]]:
    if isinstance(item, View):
        return [(field.name, field.type) for field in view_fields(binder, item)]
    return [(column.name, column.type) for column in item.table.columns if not column.hidden]


def is_temporary(item: CatalogObject) -> bool:
    """Whether an object is not stored with the connection, nor in an attached database."""
    if item.schema:
        return False
    if isinstance(item, Mapping):
        is_own = item.definition is not None and item.definition.is_temporary
        return is_own or item.is_temporary
    return bool(getattr(item, "temporary", False))


def _statistics(fields: tuple[Field, ...], query: Any) -> Any:
    """The tree of the query that computes the statistics over another one, in one row: s0, s1, …

    The other query gets columns c0, c1, …, because its own names may be ambiguous.
    """
    items = ["COUNT(*)"]
    for number, field in enumerate(fields):
        items += _aggregates(f"c{number}", field.type)
    names = ", ".join(f"c{number}" for number in range(len(fields)))
    listed = ", ".join(f"{item} AS s{number}" for number, item in enumerate(items))
    return _over(f"SELECT {listed} FROM x AS q({names})", query.copy())


def _by_column(fields: tuple[Field, ...], statistics: Any) -> Any:
    """The tree with a row for each column, from the one row of all statistics.

    Of two columns: SELECT ['a', 'b'][n] AS column_name, …, [s2, s11][n] AS approx_unique, …
    FROM (statistics) AS q CROSS JOIN (VALUES (1), (2)) AS v(n) ORDER BY n
    """
    columns = range(len(fields))
    chosen = {
        name: f"[{', '.join(f's{1 + number * _STATISTICS + offset}' for number in columns)}][n]"
        for offset, name in enumerate(_NAMES)
    }
    missing = f"CAST(100 * (s0 - {chosen['values']}) AS DECIMAL(38, 6)) / NULLIF(s0, 0)"
    items = {
        "column_name": f"[{', '.join(_text(field.name) for field in fields)}][n]",
        "column_type": f"[{', '.join(_text(str(field.type)) for field in fields)}][n]",
        **{name: chosen[name] for name in ("min", "max", "approx_unique", *_NAMES[4:])},
        "count": "s0",
        "null_percentage": f"CAST(ROUND({missing}, 2) AS DECIMAL(9, 2))",
    }
    listed = ", ".join(f'{item} AS "{name}"' for name, item in items.items())
    numbers = ", ".join(f"({number + 1})" for number in columns)
    return _over(
        f"SELECT {listed} FROM x AS q CROSS JOIN (VALUES {numbers}) AS v(n) ORDER BY n", statistics
    )


def _over(sql: str, query: Any) -> Any:
    """The tree of a SELECT from x, with another query in place of x. Its own nodes have no
    positions, as the user did not write them."""
    parsed = parse(sql)
    assert isinstance(parsed, Query)
    tree = parsed.expression
    for node in tree.walk():
        node.meta.pop("start", None)
        node.meta.pop("end", None)
    table = tree.args["from_"].this
    table.replace(exp.Subquery(this=query, alias=table.args["alias"]))
    return tree


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _aggregates(name: str, kind: SqlType) -> list[str]:
    """_STATISTICS aggregates of a column; NULL for those that its type does not have."""
    null = "CAST(NULL AS VARCHAR)"
    is_plain = not kind.is_nested and kind.kind not in (Kind.JSON, Kind.NULL)
    is_ordered = is_plain or kind.kind in (Kind.ARRAY, Kind.ROW)
    texts = f"CAST({name} AS VARCHAR)"
    least, most = (f"MIN({name})", f"MAX({name})") if is_ordered else (null, null)
    if kind.kind is Kind.VARBINARY:
        least, most = (f"'\\x' || LOWER(HEX({value}))" for value in (least, most))
    elif is_ordered:
        least, most = f"CAST({least} AS VARCHAR)", f"CAST({most} AS VARCHAR)"
    distinct = f"APPROX_COUNT_DISTINCT({name if is_plain else texts})"
    average = deviation = null
    quartiles = [null, null, null]
    if kind.is_numeric:
        average = f"CAST(AVG(CAST({name} AS DOUBLE)) AS VARCHAR)"
        deviation = f"CAST(STDDEV_SAMP(CAST({name} AS DOUBLE)) AS VARCHAR)"
    elif kind.is_temporal:
        average = f"CAST(AVG({name}) AS VARCHAR)"
    if kind.is_numeric or kind.is_temporal:
        quartiles = [f"CAST(APPROX_QUANTILE({name}, {q}) AS VARCHAR)" for q in (0.25, 0.5, 0.75)]
    return [f"COUNT({name})", distinct, least, most, average, deviation, *quartiles]
