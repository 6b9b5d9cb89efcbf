"""Functions on ARRAY that call Python code for each array: histograms, vectors, selections."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions.coercion import check_count, convert
from runnel.expressions.function import Bound, Function, always_may_fail
from runnel.expressions.kernels.per_value import per_value
from runnel.expressions.nodes import Expression
from runnel.expressions.signature import by_value
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    NULL,
    VARCHAR,
    Kind,
    SqlType,
    array,
    map_of,
)

_MOST = 10_000_000
"""The largest number of elements of a result."""


def _bind(
    types: Sequence[SqlType], result: Callable[[SqlType], SqlType]
) -> Callable[[str, Sequence[Expression], Position | None], Bound]:
    """The bind of a function of an ARRAY of any type and of arguments of `types`."""

    def bind(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
        check_count(name.upper(), arguments, len(types) + 1, position)
        first = arguments[0]
        if first.type.kind is Kind.NULL:
            first = convert(first, array(VARCHAR))
        if first.type.kind is not Kind.ARRAY or first.type.element is None:
            raise ProgrammingError(
                f"argument 1 of {name.upper()} must be an ARRAY, not {first.type}",
                position=first.position or position,
            )
        others = []
        for number, (item, expected) in enumerate(zip(arguments[1:], types, strict=True), 2):
            is_list = expected.kind is Kind.ARRAY and item.type.kind is Kind.ARRAY
            is_number = expected.is_integer and item.type.is_integer
            if not (is_list or is_number or item.type.kind is Kind.NULL or item.type == expected):
                raise ProgrammingError(
                    f"argument {number} of {name.upper()} must be {expected}, not {item.type}",
                    hint="add an explicit CAST",
                    position=item.position or position,
                )
            others.append(convert(item, expected))
        return (first, *others), result(first.type.element)

    return bind


def _histogram(values: list[Any]) -> dict[Any, int]:
    """How often each value occurs, in the order of the values."""
    counts = Counter(value for value in values if value is not None)
    return dict(sorted(counts.items()))


def _histogram_type(element: SqlType) -> SqlType:
    if element.is_nested:
        raise ProgrammingError(f"HISTOGRAM can't count values of {element}")
    return map_of(VARCHAR if element == NULL else element, BIGINT)


def _entropy(values: list[Any]) -> float:
    counts = Counter(value for value in values if value is not None).values()
    total = sum(counts)
    return math.fsum(count / total * math.log2(total / count) for count in counts)


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return ordered[middle - 1] + (ordered[middle] - ordered[middle - 1]) / 2


def _mad(values: list[float | None]) -> float | None:
    """The median of the distances from the median."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    center = _median(known)
    return _median([abs(value - center) for value in known])


def _firsts(values: list[Any], count: int) -> list[Any]:
    if count < 1:
        raise DataError(f"the number of values must be at least 1, not {count}")
    return values[:count]


def _where(values: list[Any], flags: list[bool | None]) -> list[Any]:
    if len(values) != len(flags):
        raise DataError("LIST_WHERE needs two arrays of the same length")
    return [value for value, flag in zip(values, flags, strict=True) if flag]


def _select(values: list[Any], indexes: list[int | None]) -> list[Any]:
    return [values[at - 1] if at is not None and 1 <= at <= len(values) else None for at in indexes]


def _resize(values: list[Any], size: int) -> list[Any]:
    if not 0 <= size <= _MOST:
        raise DataError(f"the size of an array must be 0 to {_MOST}, not {size}")
    return [*values[:size], *[None] * (size - len(values))]


def _grade_up(values: list[Any]) -> list[int]:
    """The index of each value in sorted order; NULL is the smallest value."""
    order = sorted(
        range(len(values)),
        key=lambda at: (values[at] is not None, values[at] if values[at] is not None else 0),
    )
    return [at + 1 for at in order]


def _pairs(name: str, left: list[Any], right: list[Any]) -> list[tuple[float, float]]:
    if len(left) != len(right):
        raise DataError(f"{name} needs two arrays of the same length")
    if None in left or None in right:
        raise DataError(f"{name} doesn't accept arrays with NULL")
    return list(zip(left, right, strict=True))


def _inner_product(left: list[Any], right: list[Any]) -> float:
    return sum(x * y for x, y in _pairs("LIST_INNER_PRODUCT", left, right))


def _distance(left: list[Any], right: list[Any]) -> float:
    return math.sqrt(sum((x - y) * (x - y) for x, y in _pairs("LIST_DISTANCE", left, right)))


def _cosine_similarity(left: list[Any], right: list[Any]) -> float:
    pairs = _pairs("LIST_COSINE_SIMILARITY", left, right)
    lengths = math.sqrt(sum(x * x for x, _ in pairs) * sum(y * y for _, y in pairs))
    if not lengths:
        return math.nan
    return max(-1.0, min(1.0, sum(x * y for x, y in pairs) / lengths))


def _list_function(
    name: str,
    arguments: str,
    result: str,
    bind: Any,
    run: Any,
) -> Function:
    return Function(
        name=name,
        arguments=arguments,
        result=result,
        bind=bind,
        compile=per_value(run),
        sql_names=(name.upper(),),
        can_fail=always_may_fail,
        family="array",
    )


_TYPE = "the type of x"
_vector = partial(by_value, family="array", can_fail=always_may_fail)
_VECTORS = "x ARRAY of DOUBLE, y ARRAY of DOUBLE"
_NUMBERS = [array(DOUBLE)] * 2
FUNCTIONS = (
    _list_function("list_histogram", "x ARRAY", "MAP", _bind([], _histogram_type), _histogram),
    _list_function("list_entropy", "x ARRAY", "DOUBLE", _bind([], lambda item: DOUBLE), _entropy),
    _vector("list_mad", "x ARRAY of DOUBLE", [array(DOUBLE)], DOUBLE, _mad),
    _list_function("array_firsts", "x ARRAY, n BIGINT", _TYPE, _bind([BIGINT], array), _firsts),
    _list_function(
        "list_where",
        "x ARRAY, flags ARRAY of BOOLEAN",
        _TYPE,
        _bind([array(BOOLEAN)], array),
        _where,
    ),
    _list_function(
        "list_select",
        "x ARRAY, indexes ARRAY of BIGINT",
        _TYPE,
        _bind([array(BIGINT)], array),
        _select,
    ),
    _list_function("list_resize", "x ARRAY, size BIGINT", _TYPE, _bind([BIGINT], array), _resize),
    _list_function(
        "list_grade_up",
        "x ARRAY",
        "INTEGER ARRAY",
        _bind([], lambda item: array(INTEGER)),
        _grade_up,
    ),
    _vector("list_inner_product", _VECTORS, _NUMBERS, DOUBLE, _inner_product),
    _vector("list_distance", _VECTORS, _NUMBERS, DOUBLE, _distance),
    _vector("list_cosine_similarity", _VECTORS, _NUMBERS, DOUBLE, _cosine_similarity),
)
