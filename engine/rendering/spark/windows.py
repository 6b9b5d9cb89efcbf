"""OVER in Spark: row numbers, values of other rows, and exact aggregates.

Calls that depend on the comparison of floats, or on frames that Spark lacks, are refused.
"""

from __future__ import annotations

from runnel.expressions.nodes import Literal
from runnel.foreign.fragment import Unrenderable
from runnel.relation.over import BoundKind, Exclusion, FrameUnit, WindowCall
from runnel.rendering.aggregates import OVER_IN_SPARK
from runnel.rendering.window_functions import LARGEST_OFFSET, WINDOWS

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
    if call.function not in OVER_IN_SPARK or call.distinct or call.predicate is not None:
        raise Unrenderable(
            "window function "
            f"{name}{' with DISTINCT or FILTER' if call.function in OVER_IN_SPARK else ''}",
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
