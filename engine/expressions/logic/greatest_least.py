"""GREATEST and LEAST: NULLs are ignored; the result is NULL only if all arguments are NULL."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from runnel.errors import Position, ProgrammingError
from runnel.expressions.coercion import coerce
from runnel.expressions.function import Bound, Datum, Function, Kernel, over_first
from runnel.expressions.kernels.buffers import FALSE
from runnel.expressions.logic.comparison import comparison_kernel
from runnel.expressions.nodes import Call, Expression
from runnel.sqltypes import Kind, contains, has_mixed_interval

_BY_KERNEL = {
    Kind.REAL,
    Kind.DOUBLE,
    Kind.BOOLEAN,
    Kind.INTERVAL,
    Kind.INTERVAL_MIXED,
    Kind.TIMESTAMP_TZ,
    Kind.ARRAY,
    Kind.ROW,
}
"""The kinds for which Arrow has no kernel, or one that treats NaN as a missing value."""


def _bind(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    if not arguments:
        raise ProgrammingError(
            f"{name.upper()} expects at least 1 argument, not 0", position=position
        )
    items = coerce(arguments, name.upper(), position)
    kind = items[0].type
    if contains(kind, Kind.MAP) or (kind.is_nested and has_mixed_interval(kind)):
        raise ProgrammingError(f"{name.upper()} cannot compare {kind}", position=position)
    return tuple(items), kind


def _compile(call: Call) -> Kernel:
    if call.type.kind is Kind.NULL:
        return lambda *values: values[0]
    greatest = call.function == "greatest"
    if call.type.kind not in _BY_KERNEL:
        kernel = pc.max_element_wise if greatest else pc.min_element_wise
        return lambda *values: kernel(*values, skip_nulls=True)
    better = comparison_kernel("gt" if greatest else "lt", call.type)
    if call.type.kind is Kind.INTERVAL_MIXED:
        better = _by_length(better)

    def run(*values: Datum) -> Datum:
        best = values[0]
        for value in values[1:]:
            replaces = pc.or_(pc.coalesce(better(value, best), FALSE), pc.is_null(best))
            best = pc.if_else(replaces, value, best)
        return best

    return run


def _by_length(better: Kernel) -> Kernel:
    """The comparison of two columns of INTERVAL by their lengths."""
    from runnel.expressions.time.mixed_intervals import length

    of = over_first(length)
    return lambda left, right: better(of(left), of(right))


FUNCTIONS = tuple(
    Function(
        name=name,
        arguments="x ANY, …",
        result="the common type",
        bind=_bind,
        compile=_compile,
        sql_names=(name.upper(),),
        family="conditional",
    )
    for name in ("greatest", "least")
)
