"""Whatever a function is called with: a value of the declared type, or an error of ours. The same
with columns and with scalars, and for whole frames and for single rows."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pytest

from runnel.errors import DataError, InternalError, ProgrammingError
from runnel.expressions.functions import FUNCTIONS
from runnel.expressions.kernels.values import python_values
from runnel.expressions.nodes import Call, Column, Expression, Literal, transform
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTERVAL,
    INTERVAL_MONTH,
    JSON,
    NULL,
    VARBINARY,
    VARCHAR,
    SqlType,
    array,
    decimal,
    map_of,
    row,
)
from runnel.sqltypes import UUID as SQL_UUID
from tests import effort
from tests.expressions.edge_values import EDGES, Rows, call, same

ROWS = 12
EXTRA: dict[str, tuple[SqlType, list[Any]]] = {
    "list": (array(VARCHAR), [["a", None], [], None]),
    "span": (INTERVAL, [None, EDGES["ts"][1][2] - EDGES["ts"][1][1]]),
    "months": (INTERVAL_MONTH, [None, 1, -13, 2**31 - 1]),
    "count": (BIGINT, [None, 0, 1, 2, 3, -2]),
    "word": (VARCHAR, [None, "", "a", ",", "%o%", "l+", "\\", "year"]),
    "json": (JSON, [None, '{"a":[1,{"b":null}]}', "[]", "[1.50,true]", '"x"', "null"]),
    "octets": (VARBINARY, [None, b"", b"abc", b"\xff\x00"]),
    "uuid": (SQL_UUID, [None, UUID(int=0), UUID(int=2**128 - 1)]),
    "numbers": (array(BIGINT), [None, [], [1, None, 1], [2**63 - 1, 1]]),
    "lists": (array(array(BIGINT)), [None, [[1], None, []]]),
    "floats": (array(DOUBLE), [None, [float("nan"), 1.5, -0.0]]),
    "map": (map_of(VARCHAR, BIGINT), [None, {}, {"a": 1, "b": None}]),
    "pairs": (
        array(row(("k", VARCHAR), ("v", BIGINT))),
        [None, [], [{"k": "a", "v": 1}, {"k": "a", "v": 2}]],
    ),
}
KINDS = EDGES | EXTRA
LITERALS: list[tuple[SqlType, Any]] = [
    (VARCHAR, "year"),
    (VARCHAR, "a"),
    (VARCHAR, ""),
    (VARCHAR, "(a|b)*"),
    (BIGINT, 0),
    (BIGINT, 3),
    (BIGINT, -(2**63)),
    (BIGINT, 2**63 - 1),
    (DOUBLE, -0.5),
    (DOUBLE, float("inf")),
    (decimal(5, 2), None),
    (BOOLEAN, True),
    (NULL, None),
]
OTHERS = {
    "and",
    "or",
    "rand",
    "extract",
    "date_trunc",
    "at_time_zone",
    "field",
    "gen_random_uuid",
    "proctime",
    "try_cast",
    "decimal_key",
    "exact_cast",
    "date_diff",
    "overlaps",
    "not_null",
}
OTHERS |= {
    "json_value",
    "json_outcome",
    "json_query",
    "json_exists",
    "is_json",
    "json_object",
    "json_array",
}
OTHERS |= {"json_array_of_list", "json_object_of_lists", "in_sample"}
OTHERS |= {"limited", "try_limited", "calendar_sum", "calendar_difference"}
OTHERS |= {
    "list_transform",
    "list_filter",
    "list_reduce",
    "json_transform",
    "json_transform_strict",
}
"""They want a literal of their own kind, have no name, or aren't the same for every evaluation."""


def _arguments(name: str, chooser: random.Random) -> tuple[Rows, list[Expression]]:
    """Columns and literals: of any kind, or, half of the time, of the kinds that the function's
    description mentions."""
    if chooser.random() < 0.5:
        count = chooser.choice([0, 1, 1, 2, 2, 2, 3, 3, 4])
        names = [chooser.choice(list(KINDS)) for _ in range(count)]
    else:
        described = FUNCTIONS[name].arguments.partition("|")[0].replace("[", ",").replace("]", "")
        wanted = [part for part in described.split(",") if part.strip()]
        names = [chooser.choice(_kinds_like(part)) for part in wanted if chooser.random() < 0.9]
    count = len(names)
    columns = {
        f"c{i}": (KINDS[name][0], [chooser.choice(KINDS[name][1]) for _ in range(ROWS)])
        for i, name in enumerate(names)
    }
    rows = Rows(**columns)
    arguments: list[Expression] = [rows[name] for name in columns]
    for i in range(count):
        if chooser.random() < 0.35:
            fitting = [item for item in LITERALS if item[0] == arguments[i].type] or LITERALS
            sql_type, value = chooser.choice(fitting if chooser.random() < 0.7 else LITERALS)
            arguments[i] = Literal(value=value, type=sql_type)
    return rows, arguments


def _kinds_like(description: str) -> list[str]:
    mentions = {
        "JSON": ["json"],
        "MAP": ["map"],
        "VARBINARY": ["octets"],
        "ROW(": ["pairs"],
        "numbers": ["numbers", "floats"],
        "ARRAYs": ["lists"],
        "unit": ["word"],
        "start": ["ts", "count"],
        "date,": ["ts"],
        "VARCHAR": ["s", "word"],
        "BIGINT": ["count", "count", "big"],
        "ARRAY": ["list", "numbers"],
        "INTERVAL": ["span", "months"],
        "DATE": ["d", "ts"],
        "TIMESTAMP": ["ts", "tz"],
        "BOOLEAN": ["b"],
        "NUMERIC": ["i", "big", "money", "wide", "x"],
        "DOUBLE": ["x", "i"],
    }
    found = [kind for word, kinds in mentions.items() if word in description for kind in kinds]
    return found or list(KINDS)


def test_functions_describe_themselves() -> None:
    for name, function in FUNCTIONS.items():
        assert function.name == name
        assert function.result and function.family
        assert all(sql_name == sql_name.upper() for sql_name in function.sql_names)
    names = [sql_name for function in FUNCTIONS.values() for sql_name in function.sql_names]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - OTHERS))
def test_a_value_or_an_error_of_ours(name: str) -> None:
    chooser = random.Random(name)
    bound = evaluated = 0
    enough = 60 if effort.ALL else 15
    for attempt in range(600):
        if attempt >= enough and evaluated:
            break
        rows, arguments = _arguments(name, chooser)
        try:
            key = FUNCTIONS[name].sql_names[0] if FUNCTIONS[name].sql_names else name
            expression = call(key, arguments)
        except (DataError, ProgrammingError) as error:
            assert error.message
            continue
        bound += 1
        try:
            whole = rows.run(expression)
        except DataError as error:
            assert not isinstance(error, InternalError)
            assert "Arrow" not in error.message
            continue
        evaluated += 1
        assert same(_by_row(rows, expression), whole), expression
    assert bound > 0
    # Among the arrays of entries there is always one with two equal keys.
    # Of random pairs of vectors, few have equal lengths and no NULL. Random paths are in no JSON.
    refused = (
        "substring",
        "decode",
        "map_from_entries",
        "list_cosine_similarity",
        "jsonb_set",
        "jsonb_insert",
    )
    assert evaluated > 0 or name in refused


def _by_row(rows: Rows, expression: Expression) -> list[Any]:
    """Every row by itself, its columns as literals."""
    if rows.num_rows != ROWS or not isinstance(expression, Call):
        return rows.run(expression)
    values = [
        python_values(column, sql_type)
        for column, sql_type in zip(rows.arrays, rows.types.values(), strict=True)
    ]

    def with_literals(index: int) -> Expression:
        def change(node: Expression) -> Expression:
            if isinstance(node, Column):
                return Literal(value=values[node.index][index], type=node.type)
            return node

        return transform(expression, change)

    return [Rows().run(with_literals(index))[0] for index in range(ROWS)]
