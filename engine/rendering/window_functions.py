"""The functions that exist only with OVER, in DuckDB and in Spark: one table for both."""

from __future__ import annotations

from collections.abc import Sequence

from runnel.expressions.nodes import Call, Literal
from runnel.foreign.fragment import Unrenderable
from runnel.rendering.render import FunctionRule, Rendering, called
from runnel.rendering.rules import ByEngine, both

LARGEST_OFFSET = 2**31 - 1
"""The largest number of rows that Spark accepts in an argument or a frame."""


def _count(call: Call, index: int, least: int) -> str:
    """An argument that Spark accepts only as a constant INT."""
    argument = call.arguments[index]
    value = argument.value if isinstance(argument, Literal) else None
    if not isinstance(value, int) or not least <= value <= LARGEST_OFFSET:
        raise Unrenderable(
            f"{call.function.upper()} with such an argument {index + 1}", argument.position
        )
    return str(value)


def _plain(call: Call) -> None:
    if call.arguments[0].type.is_nested:
        raise Unrenderable(
            f"window function {call.function.upper()}({call.arguments[0].type})", call.position
        )


def _tiles(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    return f"ntile({_count(call, 0, 1)})"


def _shifted(name: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        _plain(call)
        if len(arguments) == 1:
            return f"{name}({arguments[0]})"
        return f"{name}({', '.join([arguments[0], _count(call, 1, 0), *arguments[2:]])})"

    return rule


def _value(name: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        _plain(call)
        return f"{name}({arguments[0]})"

    return rule


def _duckdb_nth(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    """DuckDB returns NULL for a position before the first."""
    value, position = arguments
    checked = rendering.check(
        f"{position} <= 0", "the argument of NTH_VALUE must be greater than zero", position
    )
    return f"nth_value({value}, {checked})"


def _spark_nth(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    _plain(call)
    return f"nth_value({arguments[0]}, {_count(call, 1, 1)})"


WINDOWS: dict[str, ByEngine[FunctionRule]] = {
    **{
        name: both(called(name))
        for name in ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist")
    },
    "ntile": ByEngine(duckdb=called("ntile"), spark=_tiles),
    "lag": ByEngine(duckdb=called("lag"), spark=_shifted("lag")),
    "lead": ByEngine(duckdb=called("lead"), spark=_shifted("lead")),
    "first_value": ByEngine(duckdb=called("first_value"), spark=_value("first_value")),
    "last_value": ByEngine(duckdb=called("last_value"), spark=_value("last_value")),
    "nth_value": ByEngine(duckdb=_duckdb_nth, spark=_spark_nth),
}
