"""Edge values as columns, evaluated by Runnel's expressions and by DuckDB."""

from __future__ import annotations

import atexit
import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

from runnel.expressions import build
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.kernels.values import array_of, canonical, parameter_type, python_values
from runnel.expressions.nodes import Column, Expression, Literal
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    REAL,
    SMALLINT,
    TIME,
    TIMESTAMP,
    TIMESTAMP_TZ,
    TINYINT,
    VARCHAR,
    SqlType,
    decimal,
    from_arrow,
    integer_type_of,
    to_arrow,
)

NAN, INF = math.nan, math.inf
EDGES: dict[str, tuple[SqlType, list[Any]]] = {
    "b": (BOOLEAN, [None, True, False]),
    "tiny": (TINYINT, [None, 0, 1, -1, 7, 127, -128]),
    "small": (SMALLINT, [None, 0, 1, -1, 300, 32767, -32768]),
    "i": (INTEGER, [None, 0, 1, -1, 12345, 2**31 - 1, -(2**31)]),
    "big": (BIGINT, [None, 0, 1, -1, 9_876_543_210, 2**63 - 1, -(2**63)]),
    "money": (
        decimal(18, 4),
        [None, Decimal(0), Decimal("1.5"), Decimal("-2.6666"), Decimal("99999999999999.9999")],
    ),
    "wide": (
        decimal(38, 10),
        [
            None,
            Decimal(0),
            Decimal("0.0000000001"),
            Decimal("-1.5"),
            Decimal("9" * 28 + "." + "9" * 10),
        ],
    ),
    "r": (REAL, [None, 0.0, -0.0, 1.5, -2.25, NAN, INF, -INF, 3.4028234663852886e38]),
    "x": (
        DOUBLE,
        [None, 0.0, -0.0, 1.5, -2.5, NAN, INF, -INF, 1.7976931348623157e308, 5e-324, 0.1],
    ),
    "s": (
        VARCHAR,
        [
            None,
            "",
            "a",
            "Hello World",
            " pad ",
            "ÄÖ ß",
            "a,b,,c",
            "100%",
            "line\nbreak",
            "日本語",
            "xxaxx",
        ],
    ),
    "d": (
        DATE,
        [
            None,
            date(1970, 1, 1),
            date(2000, 2, 29),
            date(1969, 12, 31),
            date(1, 1, 1),
            date(9999, 12, 31),
        ],
    ),
    "t": (TIME, [None, time(0), time(23, 59, 59, 999999), time(12, 30, 15, 500000)]),
    "ts": (
        TIMESTAMP,
        [
            None,
            datetime(1970, 1, 1),
            datetime(2020, 2, 29, 23, 59, 59, 999999),
            datetime(1969, 12, 31, 23, 59, 59, 500000),
            datetime(1, 1, 1),
            datetime(2001, 1, 1, 12),
            datetime(2000, 12, 31, 1, 2, 3, 4),
            datetime(9999, 12, 31, 23, 59, 59),
        ],
    ),
    "tz": (
        TIMESTAMP_TZ,
        [None, datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 3, 31, 1, 30, tzinfo=UTC)],
    ),
}
ZONE = "Europe/Berlin"


def literal(value: Any, sql_type: SqlType | None = None) -> Literal:
    if sql_type is None:
        sql_type = integer_type_of(value) if type(value) is int else parameter_type(value)
    return Literal(value=value, type=sql_type)


class Rows:
    """Columns of values, by name, to evaluate expressions over."""

    def __init__(self, **columns: tuple[SqlType, Sequence[Any]]) -> None:
        self.types = {name: sql_type for name, (sql_type, _) in columns.items()}
        self.arrays = [array_of(list(values), sql_type) for sql_type, values in columns.values()]
        self.num_rows = len(self.arrays[0]) if self.arrays else 1

    def __getitem__(self, name: str) -> Column:
        return Column(index=list(self.types).index(name), name=name, type=self.types[name])

    def run(
        self, expression: Expression, *arguments: Any, now: int = 0, zone: str = "UTC"
    ) -> list[Any]:
        """The values of all rows. Also checks that the array has the canonical type of the
        expression's SQL type, and that slices of the columns give the same."""
        context = EvaluationContext(arguments, now, zone)
        evaluator = compile_expression(expression)
        array = evaluate(evaluator, EvaluationInput(self.arrays, self.num_rows, context))
        assert array.type == to_arrow(expression.type)
        assert len(array) == self.num_rows
        array.validate(full=True)
        values = python_values(array, expression.type)
        if self.num_rows > 2:
            parts = [column.slice(2) for column in self.arrays]
            again = python_values(
                evaluate(evaluator, EvaluationInput(parts, self.num_rows - 2, context)),
                expression.type,
            )
            assert same(again, values[2:]), "a slice gives something else"
        return values

    def oracle(self, *sql: str, zone: str = "UTC") -> list[list[Any]]:
        """What DuckDB makes of the same columns: one list per expression."""
        connection = _duckdb()
        connection.execute(f"SET TimeZone = '{zone}'")
        if self.arrays:
            connection.register("rows", pa.table(self.arrays, names=list(self.types)))
        table = connection.sql(
            f"SELECT {', '.join(sql)} {'FROM rows' if self.arrays else ''}"
        ).to_arrow_table()
        types = [from_arrow(column.type) for column in table.columns]
        return [
            python_values(canonical(column, sql_type), sql_type)
            for column, sql_type in zip(table.columns, types, strict=True)
        ]


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET integer_division = true")
    atexit.register(connection.close)
    return connection


def edges(*names: str) -> Rows:
    """Every combination of the edge values of some columns."""
    lists: list[list[Any]] = [[]]
    for name in names:
        lists = [[*row, value] for row in lists for value in EDGES[name][1]]
    return Rows(
        **{name: (EDGES[name][0], [row[i] for row in lists]) for i, name in enumerate(names)}
    )


def same(ours: Any, theirs: Any, relative: float = 0.0) -> bool:
    """Equal; NaN equals itself, floats may differ by a relative error, a float may stand for a
    whole number."""
    if isinstance(ours, list) and isinstance(theirs, (list, tuple)):
        return len(ours) == len(theirs) and all(
            same(a, b, relative) for a, b in zip(ours, theirs, strict=True)
        )
    if isinstance(ours, dict) and isinstance(theirs, dict):
        if any(isinstance(key, float) for key in ours):
            return same(list(map(list, ours.items())), list(map(list, theirs.items())), relative)
        return ours.keys() == theirs.keys() and all(
            same(ours[key], theirs[key], relative) for key in ours
        )
    if isinstance(ours, float) and isinstance(theirs, (int, float)):
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) and math.isnan(theirs)
        return ours == theirs or math.isclose(ours, theirs, rel_tol=relative, abs_tol=relative)
    if isinstance(ours, timedelta) or isinstance(theirs, timedelta):
        return bool(ours == theirs)
    return bool(ours == theirs)


def assert_like_duckdb(
    rows: Rows, expression: Expression, sql: str, relative: float = 0.0, zone: str = "UTC"
) -> None:
    """The expression gives what DuckDB gives for `sql`, in every row."""
    assert_all_like_duckdb(rows, {sql: expression}, relative, zone)


def assert_all_like_duckdb(
    rows: Rows, expressions: dict[str, Expression], relative: float = 0.0, zone: str = "UTC"
) -> None:
    """Many expressions at once, by the SQL that DuckDB runs for each."""
    answers = rows.oracle(*expressions, zone=zone)
    for (sql, expression), theirs in zip(expressions.items(), answers, strict=True):
        ours = rows.run(expression, zone=zone)
        for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            inputs = [column[index] for column in rows.arrays]
            assert same(mine, other, relative), (
                f"{expression}: {mine!r}, DuckDB {sql}: {other!r}, for {inputs}"
            )


call = build.call
