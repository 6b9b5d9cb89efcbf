"""Operators in DuckDB and in Spark: comparisons, logic, and the arithmetic of each engine."""

from __future__ import annotations

from collections.abc import Sequence

from runnel.expressions.nodes import Call
from runnel.rendering.arithmetic import negated, wide_digits
from runnel.rendering.duckdb import arithmetic as duckdb
from runnel.rendering.render import FunctionRule, Rendering, by_engine, template
from runnel.rendering.rules import ByEngine, both, refused
from runnel.rendering.spark import arithmetic as spark
from runnel.sqltypes import MAX_PRECISION, Kind, SqlType


def _same_types(symbol: str) -> FunctionRule:
    """A comparison whose sides have one type."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        left, right = (item.type for item in call.arguments)
        if left.is_nested or _is_wide(left, right):
            raise refused(call)
        return symbol.format(*arguments)

    return rule


def _is_wide(left: SqlType, right: SqlType) -> bool:
    """Whether sides are DECIMALs that no common type holds; the engines would cut digits off, or go
    by way of DOUBLE."""
    return left != right and left.kind is Kind.DECIMAL and wide_digits(left, right) > MAX_PRECISION


def _comparison(symbol: str) -> FunctionRule:
    """Sides that no type holds are compared by their whole numbers, then by the rest."""
    plain = _same_types(f"({{0}} {symbol} {{1}})")

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        left, right = (item.type for item in call.arguments)
        if not _is_wide(left, right):
            return plain(rendering, call, arguments)
        scale = max(left.scale, right.scale)
        if scale > _LEAST_SCALE:
            raise refused(call)
        wholes = [f"CAST(floor({text}) AS DECIMAL({MAX_PRECISION}, 0))" for text in arguments]
        rests = [
            f"CAST(({text} - floor({text})) AS DECIMAL({scale + 1}, {scale}))" for text in arguments
        ]
        alike, rest = f"{wholes[0]} = {wholes[1]}", f"{rests[0]} {symbol} {rests[1]}"
        if symbol == "=":
            return f"({alike} AND {rest})"
        outer = symbol.rstrip("=") if symbol in ("<=", ">=") else symbol
        return f"({wholes[0]} {outer} {wholes[1]} OR ({alike} AND {rest}))"

    return rule


_LEAST_SCALE = 6
"""The scale that Spark leaves a difference, whatever its digits."""

OPERATORS: dict[str, ByEngine[FunctionRule]] = {
    "eq": both(_comparison("=")),
    "ne": both(_comparison("<>")),
    "lt": both(_comparison("<")),
    "le": both(_comparison("<=")),
    "gt": both(_comparison(">")),
    "ge": both(_comparison(">=")),
    "is_distinct": by_engine(
        duckdb=_same_types("({0} IS DISTINCT FROM {1})"), spark=_same_types("(NOT ({0} <=> {1}))")
    ),
    "is_not_distinct": by_engine(
        duckdb=_same_types("({0} IS NOT DISTINCT FROM {1})"), spark=_same_types("({0} <=> {1})")
    ),
    "not": both(template("(NOT {0})")),
    "is_true": both(template("(({0}) IS TRUE)")),
    "is_not_true": both(template("(({0}) IS NOT TRUE)")),
    "is_false": both(template("(({0}) IS FALSE)")),
    "is_not_false": both(template("(({0}) IS NOT FALSE)")),
    "is_null": both(template("({0} IS NULL)")),
    "is_not_null": both(template("({0} IS NOT NULL)")),
    "add": by_engine(duckdb=duckdb.addition, spark=spark.addition),
    "subtract": by_engine(duckdb=duckdb.subtraction, spark=spark.subtraction),
    "multiply": by_engine(duckdb=duckdb.multiplication, spark=spark.multiplication),
    "divide": by_engine(duckdb=duckdb.division, spark=spark.division),
    "remainder": by_engine(duckdb=duckdb.modulo, spark=spark.modulo),
    "negate": by_engine(duckdb=negated, spark=spark.negation),
}
