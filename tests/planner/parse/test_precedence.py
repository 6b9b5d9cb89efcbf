"""Operators bind as in DuckDB: a tree, written out with parentheses everywhere, gives what the text
gives."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pytest

from runnel.errors import Error
from runnel.planner.parse.query.allow_list import sql_type_of
from runnel.planner.parse.statement import parse

OPERATORS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "mod": "%",
    "dpipe": "||",
    "and": "AND",
    "or": "OR",
    "eq": "=",
    "neq": "<>",
    "lt": "<",
    "gte": ">=",
    "nullsafeeq": "IS NOT DISTINCT FROM",
    "nullsafeneq": "IS DISTINCT FROM",
    "is": "IS",
}
PREFIXES = ["not", "-", "+"]
INFIXES = [
    "+",
    "-",
    "*",
    "%",
    "||",
    "and",
    "or",
    "=",
    "<>",
    "<",
    ">=",
    "is distinct from",
    "like",
    "not like",
]
POSTFIXES = [
    "is null",
    "is not null",
    "is true",
    "is not false",
    "between 1 and 3",
    "not in (1, 2)",
    "::varchar",
    "::int",
]
OPERANDS = ["1", "2", "3", "true", "false", "null", "'1'", "'t'"]


def written_out(node: Any) -> str:
    """The SQL of a tree with parentheses around every operation."""
    kind = node.key
    if kind in OPERATORS:
        return f"({written_out(node.this)} {OPERATORS[kind]} {written_out(node.expression)})"
    if kind == "literal":
        return f"'{node.this}'" if node.is_string else str(node.this)
    if kind == "boolean":
        return str(node.this).upper()
    if kind == "null":
        return "NULL"
    if kind == "paren":
        return written_out(node.this)
    if kind in ("neg", "not"):
        return f"({'-' if kind == 'neg' else 'NOT'} {written_out(node.this)})"
    if kind == "between":
        return (
            f"({written_out(node.this)} BETWEEN {written_out(node.args['low'])} AND "
            f"{written_out(node.args['high'])})"
        )
    if kind == "in":
        return f"({written_out(node.this)} IN ({', '.join(map(written_out, node.expressions))}))"
    if kind == "like":
        return (
            f"({written_out(node.this)} {'NOT ' if node.args.get('negate') else ''}LIKE "
            f"{written_out(node.expression)})"
        )
    assert kind == "cast"
    return f"CAST({written_out(node.this)} AS {sql_type_of(node.args['to'])})"


def expression(rng: random.Random) -> str:
    words = []
    for last in [False] * rng.choice([1, 1, 2]) + [True]:
        words += [rng.choice(PREFIXES)] if rng.random() < 0.3 else []
        words.append(rng.choice(OPERANDS))
        words += [rng.choice(POSTFIXES)] if rng.random() < 0.4 else []
        words += [] if last else [rng.choice(INFIXES)]
    return " ".join(words)


def value(connection: duckdb.DuckDBPyConnection, text: str) -> object:
    try:
        return connection.execute(f"select {text}").fetchall()
    except duckdb.Error:
        return None


@pytest.mark.parametrize("seed", range(3))
def test_precedence(seed: int) -> None:
    rng = random.Random(seed)
    connection = duckdb.connect()
    compared = 0
    for _ in range(600):
        text = expression(rng)
        expected = value(connection, text)
        if expected is None:
            continue
        try:
            tree = parse(f"select {text}").expression.expressions[0]  # type: ignore[attr-defined]
        except Error as error:
            assert "||" in text and error.hint == "put the test in parentheses", text
            continue
        assert value(connection, written_out(tree)) == expected, text
        compared += 1
    connection.close()
    assert compared > 150
