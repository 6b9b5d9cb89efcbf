"""Comparison of rows, `(a, b) < (c, d)`: the first pair of fields that differs decides."""

from __future__ import annotations

from collections.abc import Sequence

from runnel.errors import NotSupportedError, Position
from runnel.expressions import build
from runnel.expressions.nodes import Expression
from runnel.expressions.properties import is_volatile

_STRICT = {"lt": "lt", "le": "lt", "gt": "gt", "ge": "gt"}


def compared_rows(
    function: str, pairs: Sequence[tuple[Expression, Expression]], position: Position | None
) -> Expression:
    """Binds the comparison `function` ("eq", "lt", "is_distinct" and so on) of two rows whose
    fields are `pairs`."""
    strict = _STRICT.get(function)
    if strict is not None:
        return _ordered(function, strict, pairs, position)
    is_negated = function in ("ne", "is_distinct")
    of_fields = "is_not_distinct" if function in ("is_distinct", "is_not_distinct") else "eq"
    equal = [build.call(of_fields, [*pair], pair[0].position or position) for pair in pairs]
    both = build.call("and", equal, position) if len(equal) > 1 else equal[0]
    return build.call("not", [both], position) if is_negated else both


def _ordered(
    function: str,
    strict: str,
    pairs: Sequence[tuple[Expression, Expression]],
    position: Position | None,
) -> Expression:
    if any(is_volatile(item) for pair in pairs for item in pair):
        raise NotSupportedError(
            "the order of rows with volatile values is not supported",
            hint="compute the values in a derived table",
            position=position,
        )
    *others, last = pairs
    found = build.call(function, [*last], position)
    for pair in reversed(others):
        equal = build.call("and", [build.call("eq", [*pair], position), found], position)
        found = build.call("or", [build.call(strict, [*pair], position), equal], position)
    return found
