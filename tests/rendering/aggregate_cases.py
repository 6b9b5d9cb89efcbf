"""Every aggregate over every type that it takes, by groups of edge values; with DISTINCT, with
FILTER."""

from __future__ import annotations

import random
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa

import runnel
from runnel.errors import DataError, Error
from runnel.expressions import build
from runnel.expressions.aggregates.registry import AGGREGATES, aggregate_call
from runnel.expressions.kernels.values import array_of, python_values
from runnel.expressions.nodes import AggregateCall, Column, Literal
from runnel.foreign.fragment import Unrenderable
from runnel.rendering.render import Dialect, Rendering
from runnel.sqltypes import DOUBLE, INTEGER, Kind
from tests.expressions.edge_values import same
from tests.rendering.edge_table import COLUMNS, NAMES, ROWS, arrays, stored
from tests.rendering.outcomes import SESSION, _alike, stored_type

GROUPS = 40
_MILD = [
    None,
    float("nan"),
    float("inf"),
    -float("inf"),
    1.5,
    -2.5,
    0.1,
    1e10,
    0.0,
    -0.0,
    7.25,
    3.0,
]
"""Sums of these don't depend on their order; of the other floats they do."""
_SKIPPED = {
    "list",
    "json",
    "months",
    "months2",
    "span2",
    "tz2",
    "ts2",
    "d2",
    "t2",
    "b2",
    "s2",
    "x2",
    "r2",
}
USED = [name for name in NAMES if name not in _SKIPPED]
BY_ORDER = {
    "any_value",
    "first",
    "last",
    "array_agg",
    "string_agg",
    "arg_min",
    "arg_max",
    "mode",
    "approx_distinct",
}
"""What these give depends on the order of rows, or is an estimate."""
SENSITIVE = {
    "sum",
    "avg",
    "var_pop",
    "var_samp",
    "variance",
    "stddev_pop",
    "stddev_samp",
    "stddev",
    "product",
}


FORMS = ((False, False), (True, False), (False, True), (True, True))
WITH_FORMS = {"i", "big", "money", "mild", "s"}
"""DISTINCT and FILTER are tried over these columns."""


class AggregateCase(NamedTuple):
    """`text` is the call in SQL over the table `groups`, whose columns are called as those of the
    edge table."""

    shape: str
    call: AggregateCall
    text: str


@cache
def _rows() -> tuple[list[int], list[int]]:
    """The rows of the edge table in each group, and the number of the group: groups of one to six,
    and one of all."""
    chooser = random.Random(7)
    rows, numbers = [], []
    for number in range(GROUPS):
        for _ in range(number % 7 + 1 if number < GROUPS - 1 else 60):
            rows.append(chooser.randrange(ROWS))
            numbers.append(number)
    return rows, numbers


@cache
def own_table() -> pa.Table:
    """The groups in canonical types."""
    return _table([arrays()[NAMES.index(name)] for name in USED])


@cache
def engine_table() -> pa.Table:
    """The groups as engines get them."""
    return _table([stored().column(NAMES.index(name)).combine_chunks() for name in USED])


def _table(columns: list[pa.Array]) -> pa.Table:
    rows, numbers = _rows()
    chooser = random.Random(11)
    places = pa.array(rows, pa.int64())
    mild = array_of([chooser.choice(_MILD) for _ in rows], DOUBLE)
    return pa.table(
        [*(item.take(places) for item in columns), mild, pa.array(numbers, pa.int64())],
        names=[*USED, "mild", "g"],
    )


def _column(name: str) -> Column:
    names = [*USED, "mild"]
    return Column(
        index=names.index(name), name=name, type=DOUBLE if name == "mild" else COLUMNS[name][0]
    )


COLUMN_TEXTS = [*USED, "mild"]


@cache
def all_cases() -> tuple[AggregateCase, ...]:
    """One call per aggregate, type and form."""
    cases = {}
    predicate = build.call("gt", (_column("i"), Literal(value=0, type=INTEGER)))
    for function in AGGREGATES:
        if function in BY_ORDER:
            continue
        for name in [*USED, "mild"]:
            if function in SENSITIVE and name != "mild" and COLUMNS[name][0].is_approximate:
                continue
            for distinct, filtered in FORMS if name in WITH_FORMS else FORMS[:1]:
                arguments = () if function == "count_star" else (_column(name),)
                sql = "count" if function == "count_star" else function
                try:
                    call = aggregate_call(sql, arguments, distinct, predicate if filtered else None)
                except Error:
                    continue
                if call.distinct is not distinct and distinct:
                    continue
                inner = "*" if function == "count_star" else name
                text = f"{sql}({'DISTINCT ' if distinct else ''}{inner})" + (
                    " FILTER (WHERE i > 0)" if filtered else ""
                )
                types = str(_column(name).type) if call.arguments else ""
                shape = f"{function}({types}){' DISTINCT' * distinct}{' FILTER' * filtered}"
                cases.setdefault(shape, AggregateCase(shape, call, text))
    return tuple(cases.values())


def rendered(case: AggregateCase, dialect: Dialect) -> str | None:
    """The engine's SQL; None where the case is refused."""
    try:
        return Rendering(dialect, SESSION).aggregate(case.call, COLUMN_TEXTS)
    except Unrenderable:
        return None


@cache
def _connection() -> runnel.Connection:
    made = runnel.connect()
    made.register("groups", own_table())
    made.cursor().execute("SET pushdown = off")
    return made


def own_values(case: AggregateCase) -> dict[int, Any]:
    """The value of each group by our operators, kept; the groups that fail are left out."""
    if case.shape not in _KNOWN:
        _KNOWN[case.shape] = _worked_out(case)
    return _KNOWN[case.shape]


_KNOWN: dict[str, dict[int, Any]] = {}


def _worked_out(case: AggregateCase) -> dict[int, Any]:
    cursor = _connection().cursor()
    try:
        table = cursor.execute(
            f"SELECT g, {case.text} AS v FROM groups GROUP BY g"
        ).fetch_arrow_table()
        return dict(
            zip(
                table.column(0).to_pylist(),
                python_values(_whole(table.column(1)), case.call.type),
                strict=True,
            )
        )
    except DataError:
        found = {}
        for number in range(GROUPS):
            try:
                table = cursor.execute(
                    f"SELECT {case.text} AS v FROM groups WHERE g = {number}"
                ).fetch_arrow_table()
            except DataError:
                continue
            found[number] = python_values(_whole(table.column(0)), case.call.type)[0]
        return found


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def is_limited(case: AggregateCase, message: str) -> bool:
    """Whether a failure is the one that is allowed: engines add DECIMALs in 38 digits, so that a
    sum whose parts pass those is an overflow though the whole doesn't."""
    given = case.call.arguments[0].type if case.call.arguments else None
    return (
        given is not None
        and given.kind is Kind.DECIMAL
        and given.precision > 28
        and "verflow" in message
    )


def difference(
    case: AggregateCase, own: dict[int, Any], groups: list[int], theirs: pa.Array
) -> str | None:
    """What an engine has otherwise; sums of floats to 1e-9."""
    wanted = stored_type(case.call.type)
    if not _alike(theirs.type, wanted):
        return f"type {theirs.type} instead of {wanted}"
    if case.call.type.kind is Kind.INTERVAL:
        theirs = theirs.cast(pa.duration("us"))
    relative = 1e-9 if case.call.type.is_approximate else 0.0
    for group, value in zip(groups, python_values(theirs, case.call.type), strict=True):
        if group in own and not same(own[group], value, relative):
            rows = own_table().filter(pa.compute.equal(own_table()["g"], group))
            arguments = [
                rows[item.name].to_pylist()
                for item in case.call.arguments
                if isinstance(item, Column)
            ]
            return f"group {group}: {own[group]!r}, there {value!r}, of {str(arguments)[:300]}"
    return None
