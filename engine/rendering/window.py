"""OVER as an engine's SQL: partition, order, frame, and the functions that only OVER knows."""

from __future__ import annotations

from collections.abc import Sequence

from runnel.expressions.nodes import Call, Literal
from runnel.foreign.fragment import Unrenderable
from runnel.relation.over import Exclusion, FrameBound, FrameUnit, WindowCall, WindowFrame
from runnel.rendering.render import Rendering


def over(rendering: Rendering, window: WindowCall, columns: Sequence[str]) -> str:
    """A call with OVER. Unrenderable where the engine has other rules for it."""
    call = window.call
    if not rendering.dialect.windows:
        raise Unrenderable("a window function", call.position)
    parts = []
    if window.partition:
        if any(item.type.is_nested for item in window.partition):
            raise Unrenderable("PARTITION BY a nested value", call.position)
        parts.append(
            "PARTITION BY " + ", ".join(rendering.key(item, columns) for item in window.partition)
        )
    if window.order:
        parts.append(
            "ORDER BY " + ", ".join(rendering.sort_key(key, columns) for key in window.order)
        )
    rule = rendering.dialect.windows.get(call.function)
    frame = rendering.dialect.frame
    parts.append(_frame(rendering, window.frame, call.position) if frame is None else frame(window))
    text = f" OVER ({' '.join(parts)})"
    if rule is None:
        if window.ignore_nulls:
            raise Unrenderable(f"{call.function.upper()} IGNORE NULLS", call.position)
        return rendering.window_aggregate(call, columns, text)
    if call.distinct or call.predicate is not None or call.order:
        raise Unrenderable(
            f"window function {call.function.upper()} with DISTINCT, FILTER or ORDER BY",
            call.position,
        )
    plain = Call(
        function=call.function, arguments=call.arguments, type=call.type, position=call.position
    )
    arguments = [rendering.expression(item, columns) for item in call.arguments]
    called = rule(rendering, plain, arguments)
    if window.ignore_nulls:
        inside = rendering.dialect.ignores_nulls_inside
        called = called.removesuffix(")") + " IGNORE NULLS)" if inside else f"{called} IGNORE NULLS"
    return f"CAST({called}{text} AS {rendering.type(call.type)})"


def _frame(rendering: Rendering, frame: WindowFrame, position: object) -> str:
    if frame.unit is FrameUnit.RANGE and (
        frame.start.offset is not None or frame.end.offset is not None
    ):
        raise Unrenderable("a RANGE frame with an offset")
    start, end = (_bound(rendering, bound) for bound in (frame.start, frame.end))
    text = f"{frame.unit.value} BETWEEN {start} AND {end}"
    return (
        text
        if frame.exclusion is Exclusion.NO_OTHERS
        else f"{text} EXCLUDE {frame.exclusion.value}"
    )


def _bound(rendering: Rendering, bound: FrameBound) -> str:
    if bound.offset is None:
        return bound.kind.value
    offset = bound.offset
    if isinstance(offset, Literal) and (not isinstance(offset.value, int) or offset.value < 0):
        raise Unrenderable("a frame with such an offset", offset.position)
    return f"{rendering.expression(offset, ())} {bound.kind.value}"
