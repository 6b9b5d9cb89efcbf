"""OVER in Spark: row numbers, values of other rows, and exact aggregates.

Calls that depend on the comparison of floats, or on frames that Spark lacks, are refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.expressions.nodes import Call, Literal
from runnel.foreign.fragment import Unrenderable
from runnel.relation.over import BoundKind, Exclusion, FrameUnit, WindowCall
from runnel.rendering.render import FunctionRule, Rendering

AGGREGATES = frozenset(
    {"count_star", "count", "sum", "avg", "min", "max", "bool_and", "bool_or", "every"}
)
LARGEST_OFFSET = 2**31 - 1


def _named(name: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        return f"{name}()"

    return rule


def _count(call: Call, index: int, least: int) -> str:
    """An argument that Spark wants as a constant INT."""
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


def _nth(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    _plain(call)
    return f"nth_value({arguments[0]}, {_count(call, 1, 1)})"


WINDOWS: dict[str, FunctionRule] = {
    **{
        name: _named(name)
        for name in ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist")
    },
    "ntile": _tiles,
    "lag": _shifted("lag"),
    "lead": _shifted("lead"),
    "first_value": _value("first_value"),
    "last_value": _value("last_value"),
    "nth_value": _nth,
}
FRAMED = frozenset({"first_value", "last_value", "nth_value"})


def spark_frame(window: WindowCall) -> str:
    """The frame as Spark's SQL; empty for functions that see none. Unrenderable for a call that
    isn't the same in Spark."""
    call = window.call
    name = call.function.upper()
    if any(key.expression.type.is_approximate for key in window.order):
        raise Unrenderable("a window function in the order of floats", call.position)
    if call.function in WINDOWS:
        if not window.order:
            raise Unrenderable(f"{name} without ORDER BY", call.position)
        return _frame(window) if call.function in FRAMED else ""
    if call.function not in AGGREGATES or call.distinct or call.predicate is not None:
        raise Unrenderable(
            "window function "
            f"{name}{' with DISTINCT or FILTER' if call.function in AGGREGATES else ''}",
            call.position,
        )
    if any(item.type.is_approximate or item.type.is_nested for item in call.arguments):
        raise Unrenderable(f"window function {name}({call.arguments[0].type})", call.position)
    return _frame(window)


def _frame(window: WindowCall) -> str:
    frame = window.frame
    is_whole = (frame.start.kind, frame.end.kind) == (
        BoundKind.UNBOUNDED_PRECEDING,
        BoundKind.UNBOUNDED_FOLLOWING,
    )
    if frame.exclusion is not Exclusion.NO_OTHERS or frame.unit is FrameUnit.GROUPS:
        raise Unrenderable("a frame of groups or with EXCLUDE", window.call.position)
    if frame.unit is FrameUnit.RANGE and (frame.offsets or not (window.order or is_whole)):
        raise Unrenderable("such a RANGE frame", window.call.position)
    texts, places = [], []
    for bound in (frame.start, frame.end):
        offset = bound.offset
        if offset is None:
            texts.append(bound.kind.value)
            places += [0] if bound.kind is BoundKind.CURRENT_ROW else []
            continue
        value = offset.value if isinstance(offset, Literal) else None
        if not isinstance(value, int) or not 0 <= value <= LARGEST_OFFSET:
            raise Unrenderable("a frame with such an offset", offset.position)
        texts.append(f"{value} {bound.kind.value}")
        places.append(-value if bound.kind is BoundKind.PRECEDING else value)
    if len(places) == 2 and places[0] > places[1]:
        raise Unrenderable("a frame that has no rows", window.call.position)
    return f" {frame.unit.value} BETWEEN {texts[0]} AND {texts[1]}"
