"""The methods of a relation: each composes a query from the relation's query, and returns the
relation of the new one, which is planned at once and runs when its rows are asked for.

Expressions are texts in SQL, and become part of the query. Values stay bound: parameters keep their
values, and what two relations cannot share is read through a variable. Loaded on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from runnel.errors import InterfaceError, OperationalError, as_written, short_errors, suggest
from runnel.results.calls import RelationQuery
from runnel.results.relational.calls import AGGREGATES, WINDOWS, call_text
from runnel.results.relational.compose import (
    AUTOMATIC,
    composed,
    from_of,
    number,
    query_of,
    related,
    source_of,
    text_of,
    together,
    words,
)
from runnel.results.relational.expressions import Expression
from runnel.results.relational.reshaping import RESHAPING
from runnel.sqltypes import Kind

_NUMBERS = frozenset(
    (Kind.TINYINT, Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL, Kind.REAL, Kind.DOUBLE)
)
_JOINS = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "outer": "FULL JOIN",
    "full": "FULL JOIN",
    "semi": "SEMI JOIN",
    "anti": "ANTI JOIN",
}


def method_of(cursor: Any, name: str) -> Any:
    """The method or attribute of a relation with that name. AttributeError if there is none, or if
    the cursor is no relation."""
    found: Callable[..., Any] | None = globals().get(f"_{name}") if name in _METHODS else None
    if found is None:
        found = RESHAPING.get(name)
    if found is None and name in AGGREGATES | WINDOWS:
        found = partial(_call, function=name)
    if found is None and cursor._query is not None and name in cursor.columns:
        return short_errors(_project)(cursor, as_written(name))
    if found is None or (cursor._query is None and cursor._result is not None):
        raise AttributeError(
            f"{type(cursor).__name__!r} object has no attribute {name!r}{_remedy(cursor, name)}",
            name=name,
            obj=cursor,
        )
    if name == "alias":
        return query_of(cursor).alias or AUTOMATIC
    return short_errors(partial(found, cursor))


def _remedy(cursor: Any, name: str) -> str:
    if name in ("tf", "torch"):
        return "; write fetchnumpy(), whose arrays become tensors"
    if name in _METHODS or name in AGGREGATES | WINDOWS | RESHAPING:
        return f"; con.sql(query) returns a relation, which has it: con.sql(query).{name}(…)"
    known = {*_METHODS, *AGGREGATES, *WINDOWS, *RESHAPING}
    if cursor._query is not None and (near := suggest(name, known)):
        return f"; {near}"
    if not name.startswith("_") and hasattr(type(cursor._connection), name):
        return f"; it is a method of the connection: cursor.connection.{name}"
    return ""


def reader_of(cursor: Any, name: str) -> pa.RecordBatchReader:
    """A reader of all rows of a relation, which runs when the first one is read. Rows that have
    arrived and were not fetched are moved into it. InterfaceError for a relation of a stream, which
    would be read as a table."""
    if cursor._schema is None or cursor._result is not None:
        cursor._begin()
        cursor._schema = cursor._result.schema
        if cursor._result.is_unbounded:
            raise InterfaceError(
                f'the relation "{name}" reads a stream, which is no table',
                hint=f"use its methods, such as {name}.filter('…'), or create a view of its query",
            )
    return pa.RecordBatchReader.from_batches(cursor._schema, _all_batches(cursor, cursor._schema))


def _all_batches(cursor: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    reader = _own_cursor(cursor).fetch_record_batch()
    if reader.schema != schema:
        cursor._discard()
        cursor._schema = None
        raise OperationalError(
            "the columns of a relation have changed since it ran", hint="run the statement again"
        )
    yield from reader


def _own_cursor(cursor: Any) -> Any:
    """A cursor of its own with all rows of a relation."""
    own = cursor._connection.cursor()
    result = cursor._result
    if result is None or result.fetched or cursor._is_used:
        own._run(cursor._query)
    else:
        cursor._result = None
        own._result, own._sql = result, cursor._sql
    return own


class CallableText(str):
    """The text of a relation's query, which can also be called as DuckDB's method `query`."""

    __slots__ = ("cursor",)
    cursor: Any

    def __call__(self, name: str, sql: str) -> Any:
        """The relation of a query that reads this one by a name."""
        return short_errors(_query)(self.cursor, name, sql)


def callable_text(cursor: Any) -> CallableText:
    """The text of a relation's query."""
    text = CallableText(cursor._query.sql)
    text.cursor = cursor
    return text


# The methods, under the names that users call


def _filter(cursor: Any, condition: str) -> Any:
    query = query_of(cursor)
    more = f"({words((condition,), 'filter')}\n)"
    condition = f"{query.condition} AND {more}" if query.condition else more
    sql = f"SELECT * FROM {source_of(query)} WHERE {condition}"
    return related(
        cursor, replace(query, sql=sql, source=source_of(query), condition=condition, table="")
    )


def _project(cursor: Any, *columns: str, groups: str = "") -> Any:
    grouped = f" GROUP BY {groups}" if groups else ""
    expressions = words(columns, "project")
    return composed(cursor, f"SELECT {expressions} FROM {from_of(query_of(cursor))}{grouped}")


def _aggregate(cursor: Any, expressions: Any, groups: Any = "") -> Any:
    by = words((groups,), "aggregate") if groups else "ALL"
    text = words((expressions,), "aggregate")
    return composed(cursor, f"SELECT {text} FROM {from_of(query_of(cursor))} GROUP BY {by}")


def _order(cursor: Any, *keys: str) -> Any:
    return composed(
        cursor, f"SELECT * FROM {from_of(query_of(cursor))} ORDER BY {words(keys, 'order')}"
    )


def _limit(cursor: Any, n: int, offset: int = 0) -> Any:
    rows, first = number(n, "limit"), number(offset, "limit")
    skipped = f" OFFSET {first}" if first else ""
    return composed(cursor, f"SELECT * FROM {from_of(query_of(cursor))} LIMIT {rows}{skipped}")


def _head(cursor: Any, n: int = 5) -> Any:
    return _limit(cursor, n)


def _offset(cursor: Any, n: int) -> Any:
    first = number(n, "offset")
    return composed(cursor, f"SELECT * FROM {from_of(query_of(cursor))} OFFSET {first}")


def _distinct(cursor: Any, on: Any = None) -> Any:
    only = "" if on is None else f" ON ({words((on,), 'distinct')})"
    return composed(cursor, f"SELECT DISTINCT{only} * FROM {from_of(query_of(cursor))}")


def _unique(cursor: Any, columns: str) -> Any:
    text = words((columns,), "unique")
    return composed(cursor, f"SELECT DISTINCT {text} FROM {from_of(query_of(cursor))}")


def _combined(cursor: Any, other: Any, operator: str) -> Any:
    left, right = together(cursor, other)
    sql = f"SELECT * FROM {source_of(left, left.alias or AUTOMATIC)} {operator} SELECT * FROM " + (
        source_of(right, right.alias or AUTOMATIC)
    )
    return related(cursor, RelationQuery(sql, left.args, left.frames, left.alias))


def _join(cursor: Any, other: Any, condition: Any, how: str = "inner") -> Any:
    kind = _JOINS.get(how.lower() if isinstance(how, str) else "")
    if kind is None:
        raise InterfaceError(
            f"a join is one of {', '.join(_JOINS)}, not {how!r}", hint="join(other, 'k', 'left')"
        )
    text = words((condition,), "join")
    is_columns = isinstance(condition, str | list) and all(
        item.strip().isidentifier() for item in text.split(",")
    )
    by = f"USING ({text})" if is_columns else f"ON ({text}\n)"
    return _joined(cursor, other, kind, f" {by}")


def _joined(cursor: Any, other: Any, kind: str, by: str) -> Any:
    left, right = together(cursor, other)
    first, second = left.alias or AUTOMATIC, right.alias or f"{AUTOMATIC}_2"
    if first.lower() == second.lower():
        if right.table and not left.table:
            first = f"{AUTOMATIC}_2"
        else:
            raise InterfaceError(
                f'both relations have the name "{first}"',
                hint=f"give one of them another: r.set_alias('{first}_2')",
            )
    # The names of a join's relations remain, so that the next condition can use them.
    is_join = left.source is not None and not left.condition
    before = source_of(left) if is_join else source_of(left, first)
    source = f"{before} {kind} {source_of(right, second)}{by}"
    sql = f"SELECT * FROM {source}"
    return related(cursor, RelationQuery(sql, left.args, left.frames, left.alias, source))


def _cross(cursor: Any, other: Any) -> Any:
    return _joined(cursor, other, "CROSS JOIN", "")


def _union(cursor: Any, other: Any) -> Any:
    return _combined(cursor, other, "UNION ALL")


def _union_by_name(cursor: Any, other: Any, *, all: bool = True) -> Any:  # noqa: A002
    return _combined(cursor, other, "UNION ALL BY NAME" if all else "UNION BY NAME")


def _except_(cursor: Any, other: Any) -> Any:
    return _combined(cursor, other, "EXCEPT ALL")


def _intersect(cursor: Any, other: Any) -> Any:
    return _combined(cursor, other, "INTERSECT ALL")


def _set_alias(cursor: Any, alias: str) -> Any:
    if not isinstance(alias, str) or not alias:
        raise InterfaceError("an alias is a text with at least one character")
    query = query_of(cursor)
    return related(cursor, replace(query, alias=alias, source=None, condition=""))


def _query(cursor: Any, name: str, sql: str) -> Any:
    query = query_of(cursor)
    text = f"WITH {as_written(name)} AS (\n{text_of(query)}\n) FROM (\n{sql.strip().rstrip(';')}\n)"
    return composed(cursor, f"{text} AS {as_written(query.alias or AUTOMATIC)}")


def _value_counts(cursor: Any, column: str, groups: str = "") -> Any:
    before = f"{groups}, " if groups else ""
    text = f"SELECT {before}{column}, count({column})"
    return composed(cursor, f"{text} FROM {from_of(query_of(cursor))} GROUP BY {before}{column}")


def _rename(cursor: Any, **columns: str) -> Any:
    names = ", ".join(f"{as_written(old)} AS {as_written(new)}" for old, new in columns.items())
    return composed(cursor, f"SELECT * RENAME ({names}) FROM {from_of(query_of(cursor))}")


def _drop(cursor: Any, *columns: str) -> Any:
    names = ", ".join(map(as_written, columns))
    return composed(cursor, f"SELECT * EXCLUDE ({names}) FROM {from_of(query_of(cursor))}")


def _describe(cursor: Any) -> Any:
    names = ("count", "avg", "stddev", "min", "max", "median")
    rows = [_summary(cursor, name, position) for position, name in enumerate(names)]
    # The query occurs once, as its parameters do.
    query = query_of(cursor)
    rows_of = f"WITH {as_written(query.alias or AUTOMATIC)} AS (\n{text_of(query)}\n)"
    union = " UNION ALL ".join(rows)
    return composed(
        cursor,
        f'{rows_of} SELECT * EXCLUDE ("row of describe") FROM ({union}) ORDER BY "row of describe"',
    )


def _summary(cursor: Any, function: str, position: int) -> str:
    """The row of `describe` with one aggregate of each column, and its position."""
    cells = [f"'{'mean' if function == 'avg' else function}' AS aggr"]
    for item in cursor.description:
        name = as_written(item.name)
        if item.type_code.kind in _NUMBERS:
            cells.append(f"CAST({function}({name}) AS DOUBLE) AS {name}")
        elif function in ("count", "min", "max"):
            cells.append(f"CAST({function}({name}) AS VARCHAR) AS {name}")
        else:
            cells.append(f"CAST(NULL AS VARCHAR) AS {name}")
    name = as_written(query_of(cursor).alias or AUTOMATIC)
    return f'SELECT {", ".join(cells)}, {position} AS "row of describe" FROM {name}'


def _call(cursor: Any, *arguments: Any, function: str, **options: Any) -> Any:
    """A relation of the values of one aggregate or window function."""
    arguments = tuple(str(item) if isinstance(item, Expression) else item for item in arguments)
    text, groups = call_text(function, arguments, options)
    grouped = f" GROUP BY {groups}" if groups else ""
    return composed(cursor, f"SELECT {text} FROM {from_of(query_of(cursor))}{grouped}")


def _map(cursor: Any, function: Callable[[Any], Any], **options: Any) -> Any:
    if options.get("schema") is not None:
        raise InterfaceError("map has no schema", hint="the frame that is returned has its types")
    return cursor._connection.from_df(function(cursor.df()))


# Statements


def _sql_query(cursor: Any) -> str:
    return query_of(cursor).sql


def _explain(cursor: Any, type: Any = "standard", *, analyze: bool = False) -> str:  # noqa: A002
    query = query_of(cursor)
    own = cursor._connection.cursor()
    runs = analyze or str(type).upper().endswith("ANALYZE")
    own._run(replace(query, sql=f"EXPLAIN {'ANALYZE ' if runs else ''}{text_of(query)}"))
    return "\n".join(str(row[0]) for row in own.fetchall())


def _written(cursor: Any, begin: str) -> None:
    query = query_of(cursor)
    own = cursor._connection.cursor()
    own._run(replace(query, sql=f"{begin} {text_of(query)}"))


def _create(cursor: Any, name: str) -> None:
    _written(cursor, f"CREATE TABLE {_named(name)} AS")


def _insert_into(cursor: Any, name: str) -> None:
    _written(cursor, f"INSERT INTO {_named(name)}")


def _create_view(cursor: Any, name: str, replace: bool = True) -> Any:
    _written(cursor, f"CREATE {'OR REPLACE ' if replace else ''}VIEW {_named(name)} AS")
    return cursor._connection.table(name)


def _insert(cursor: Any, values: Any) -> None:
    values = tuple(values)
    marks = ", ".join("?" * len(values))
    own = cursor._connection.cursor()
    own.execute(f"INSERT INTO {_table_of(cursor)} VALUES ({marks})", values)
    cursor._discard()  # the relation runs again, and has the row


def _update(cursor: Any, set: dict[str, Any], *, condition: Any = None) -> None:  # noqa: A002
    changes = ", ".join(
        f"{as_written(name)} = {value if isinstance(value, Expression) else '?'}"
        for name, value in set.items()
    )
    where = "" if condition is None else f" WHERE {words((condition,), 'update')}"
    own = cursor._connection.cursor()
    values = [item for item in set.values() if not isinstance(item, Expression)]
    own.execute(f"UPDATE {_table_of(cursor)} SET {changes}{where}", values)
    cursor._discard()


def _table_of(cursor: Any) -> str:
    table = query_of(cursor).table
    if not table:
        raise InterfaceError(
            "rows are written to the relation of a table", hint="begin with con.table('t')"
        )
    return _named(table)


def _named(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise InterfaceError("the name of a table or view is a text with at least one character")
    return ".".join(map(as_written, name.split(".")))


def _to_dicts(cursor: Any) -> list[dict[str, Any]]:
    names = cursor.columns
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


_select, _sort, _to_table, _to_view = _project, _order, _create, _create_view
_alias = _set_alias
_METHODS = frozenset(
    "filter project select aggregate order sort limit head offset distinct unique join cross union "
    "union_by_name except_ intersect set_alias alias query value_counts rename drop "
    "describe map sql_query explain create to_table create_view to_view insert_into insert update "
    "to_dicts".split()
)
"""The public names of the functions of this module."""
