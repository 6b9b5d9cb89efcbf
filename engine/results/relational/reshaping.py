"""The methods of a relation that add, choose and turn columns, and sample or group its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from runnel.errors import InterfaceError, as_written
from runnel.results.relational.compose import composed, from_of, query_of, words
from runnel.results.relational.expressions import sql_of
from runnel.session.python_function import sql_type


class GroupedRelation:
    """The groups of a relation; `agg` aggregates them.

    cursor: the relation.
    keys: the expressions of GROUP BY, in SQL.
    """

    __slots__ = ("cursor", "keys")

    def __init__(self, cursor: Any, keys: str) -> None:
        self.cursor, self.keys = cursor, keys

    def agg(self, *expressions: Any) -> Any:
        """The relation of the keys and of aggregates: `r.group_by('k').agg('sum(n)')`."""
        text = words(expressions, "project")
        source = from_of(query_of(self.cursor))
        return composed(self.cursor, f"SELECT {self.keys}, {text} FROM {source} GROUP BY ALL")


def _selected(cursor: Any, items: str, end: str = "") -> Any:
    return composed(cursor, f"SELECT {items} FROM {from_of(query_of(cursor))}{end}")


def _group_by(cursor: Any, *columns: Any) -> GroupedRelation:
    return GroupedRelation(cursor, words(columns, "group_by"))


def _with_columns(cursor: Any, **columns: Any) -> Any:
    known = {name.lower() for name in cursor.columns}
    named = [
        (name.lower() in known, f"{words((value,), 'with_columns')} AS {as_written(name)}")
        for name, value in columns.items()
    ]
    replaced = ", ".join(text for is_known, text in named if is_known)
    star = f"* REPLACE ({replaced})" if replaced else "*"
    return _selected(cursor, ", ".join([star, *(text for is_known, text in named if not is_known)]))


def _sample(
    cursor: Any, n: int | None = None, *, percent: float | None = None, seed: int | None = None
) -> Any:
    if (n is None) == (percent is None):
        raise InterfaceError(
            "sample needs a number of rows, or a percentage",
            hint="write sample(10) or sample(percent=5)",
        )
    size = f"{sql_of(percent)}%" if n is None else f"{sql_of(n)} ROWS"
    repeatable = "" if seed is None else f" REPEATABLE ({sql_of(seed)})"
    return _selected(cursor, "*", f" USING SAMPLE {size}{repeatable}")


def _unnest(cursor: Any, *columns: str) -> Any:
    items = ", ".join(f"unnest({as_written(name)}) AS {as_written(name)}" for name in columns)
    return _selected(cursor, f"* REPLACE ({items})")


def _unpivot(cursor: Any, *columns: str, name: str = "name", value: str = "value") -> Any:
    names = ", ".join(map(as_written, columns))
    rows = f"(SELECT * FROM {from_of(query_of(cursor))})"
    into = f"INTO NAME {as_written(name)} VALUE {as_written(value)}"
    return composed(cursor, f"FROM (UNPIVOT {rows} ON {names} {into})")


def _pivot(cursor: Any, column: Any, values: Iterable[Any], aggregate: Any) -> Any:
    listed = ", ".join(map(sql_of, values))
    rows = f"(SELECT * FROM {from_of(query_of(cursor))})"
    on = f"{words((column,), 'pivot')} IN ({listed})"
    return composed(cursor, f"FROM (PIVOT {rows} ON {on} USING {words((aggregate,), 'pivot')})")


def _select_types(cursor: Any, types: Any) -> Any:
    if isinstance(types, str) or not isinstance(types, Iterable):
        types = (types,)
    wanted = {sql_type(item) for item in types}
    names = [as_written(item.name) for item in cursor.description or () if item.type_code in wanted]
    if not names:
        raise InterfaceError("no column has one of the types", hint="r.types has the types")
    return _selected(cursor, ", ".join(names))


def _apply(
    cursor: Any,
    function_name: str,
    function_aggr: str,
    group_expr: str = "",
    function_parameter: str = "",
    projected_columns: str = "",
) -> Any:
    more = f", {function_parameter}" if function_parameter else ""
    calls = (f"{function_name}({item.strip()}{more})" for item in function_aggr.split(","))
    items = ", ".join([*([projected_columns] if projected_columns else []), *calls])
    return _selected(cursor, items, f" GROUP BY {group_expr}" if group_expr else "")


def _iter_rows(cursor: Any, batch_size: int = 1024) -> Iterator[tuple[Any, ...]]:
    own = cursor._connection.cursor()
    own._run(query_of(cursor))
    while rows := own.fetchmany(batch_size):
        yield from rows


def _materialize(cursor: Any) -> Any:
    query_of(cursor)
    return cursor._connection.from_arrow(cursor.arrow())


RESHAPING: dict[str, Callable[..., Any]] = {
    "apply": _apply,
    "group_by": _group_by,
    "iter_rows": _iter_rows,
    "materialize": _materialize,
    "pivot": _pivot,
    "sample": _sample,
    "select_dtypes": _select_types,
    "select_types": _select_types,
    "unnest": _unnest,
    "unpivot": _unpivot,
    "with_columns": _with_columns,
}
"""The methods by their names."""
