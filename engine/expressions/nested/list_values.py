"""Functions on ARRAY that compare or add up elements, and functions that create arrays: sorting,
sets, totals, ranges.

Their common terms are in `lists`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Numbers, from_flags, from_numbers, indexes, numbers, validity
from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions.coercion import check_count, convert
from runnel.expressions.function import Bound, Kernel, over_arrays, over_first
from runnel.expressions.kernels.sameness import list_lengths
from runnel.expressions.nested.lists import (
    MOST_ITEMS,
    Lists,
    all_valid,
    as_array,
    bind_two,
    element_of,
    filtered,
    list_function,
    made,
    same_type,
)
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.expressions.signature import ARRAY, signature
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    NULL,
    VARCHAR,
    Kind,
    SqlType,
    array,
    decimal,
    to_arrow,
)


# For [b, NULL, a, b]:
#     values  [b, a]           the dictionary: each distinct value, in the order of appearance
#     codes   [0, –, 1, 0]     the index of each value in the dictionary; NULL has any
#     order   [1, 0]           the dictionary's indexes in the order of the values: a, b
#     rank    [2, 1]           the inverse, from 1: the rank of each dictionary value
#     result  [2, 0, 1, 2]
def _ranks(items: pa.Array) -> Numbers:
    """A number for each value in sort order: equal values have equal numbers, NULL has the
    smallest, NaN the largest.
    """
    if pa.types.is_null(items.type) or not len(items):
        return np.zeros(len(items), np.int64)
    if pa.types.is_nested(items.type):
        raise DataError("arrays of arrays, rows or maps can't be sorted")
    if pa.types.is_floating(items.type):
        items = pc.add(
            items, from_numbers(np.zeros(1, np.float64), pa.float64()).cast(items.type)[0]
        )
    if pa.types.is_duration(items.type):
        items = items.cast(pa.int64())
    encoded = items.dictionary_encode()
    values = encoded.dictionary
    order = numbers(pc.sort_indices(values, sort_keys=[("", "ascending")]), np.uint64).astype(
        np.int64
    )
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(1, len(values) + 1)
    codes = numbers(encoded.indices, np.int32)
    valid = validity(encoded.indices)
    return (
        rank[codes]
        if valid is None
        else np.where(valid, rank[np.where(valid, codes, 0)] if len(values) else 0, 0)
    )


def _sort(call: Call) -> Kernel:
    """Sorts by owner first, so that each list stays where it is, and by rank within each list."""
    descending = call.function == "array_reverse_sort"
    option = call.arguments[1] if len(call.arguments) > 1 else None
    nulls = option.value if isinstance(option, Literal) else None
    arrow = to_arrow(call.type)

    def run(column: pa.Array) -> pa.Array:
        lists = Lists(column)
        ranks = _ranks(lists.items)
        keys = -ranks if descending else ranks
        if nulls is not None:
            end = len(ranks) + 1
            keys = np.where(ranks == 0, -end if nulls == "NULLS FIRST" else end, keys)
        order = np.lexsort((keys, lists.owners))
        return made(lists.items.take(indexes(order)), lists.lengths, arrow, lists.valid)

    sort = over_first(run)
    return lambda column, *options: sort(column)


def _bind_sort(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """The second argument says where NULLs are; without it they are the smallest values."""
    arguments, result = _SORT(name, arguments, position)
    if len(arguments) < 2:
        return arguments, result
    nulls = arguments[1]
    word = nulls.value if isinstance(nulls, Literal) else None
    if not isinstance(word, str) or word.upper() not in ("NULLS FIRST", "NULLS LAST"):
        raise ProgrammingError(
            "the order of NULLs in a sorted list must be 'NULLS FIRST' or 'NULLS LAST'",
            position=nulls.position or position,
        )
    assert isinstance(nulls, Literal)
    return (arguments[0], replace(nulls, value=word.upper())), result


def _distinct(call: Call) -> Kernel:
    """Each value once, at its first position. NULLs are left out, as in DuckDB."""
    arrow = to_arrow(call.type)

    def run(column: pa.Array) -> pa.Array:
        lists = Lists(column)
        present = validity(lists.items)
        keep = _firsts(lists)
        return filtered(lists, keep if present is None else keep & present, arrow)

    return over_first(run)


# For [[a, b, a], [a]] with the codes [1, 2, 1, 1]:
#     keys  [1, 2, 1, 4]  owner * (largest code + 1) + code: equal for equal values of one list
#     keep  [T, T, F, T]  the first index of each distinct key
def _firsts(lists: Lists) -> Numbers:
    """Whether each element is the first of its value in its list."""
    codes = codes_of(lists.items)
    keys = lists.owners * (int(codes.max(initial=0)) + 1) + codes
    keep = np.zeros(len(keys), bool)
    keep[np.unique(keys, return_index=True)[1]] = True
    return keep


def codes_of(items: pa.Array) -> Numbers:
    """A number for each element, equal for equal values; for nested types too."""
    if pa.types.is_nested(items.type):
        from runnel.columns.key_hash import hash_column

        return np.unique(hash_column(items), return_inverse=True)[1]
    return _ranks(items)


# For [[a, b, c], [d]], in `run`:
#     starts + lengths − 1  [2, 3]        the last element of each list
#     repeated              [2, 2, 2, 3]
#     positions             [0, 1, 2, 0]
#     source                [2, 1, 0, 3]  the difference
def _reverse(call: Call) -> Kernel:
    arrow = to_arrow(call.type)

    def run(column: pa.Array) -> pa.Array:
        lists = Lists(column)
        source = np.repeat(lists.starts + lists.lengths - 1, lists.lengths) - lists.positions
        return made(lists.items.take(indexes(source)), lists.lengths, arrow, lists.valid)

    return over_first(run)


# For [[a, b]] and [[b, c]], in `run`:
#     codes       [1, 2, 2, 3]  of the elements of both columns; width = 4
#     keys        owner * width + code, the same here, as there is one row
#     left_keys   [1, 2]
#     right_keys  [2, 3]
#     hit         [F, T]        whether an element of the left list is in the right list
def _set_operation(call: Call) -> Kernel:
    """ARRAY_HAS_ALL, ARRAY_HAS_ANY, ARRAY_INTERSECT and ARRAY_EXCEPT; NULL if one of the arrays is
    NULL.
    """
    name = call.function

    def run(left: pa.Array, right: pa.Array) -> pa.Array:
        first, second = Lists(left), Lists(right)
        codes = codes_of(pa.concat_arrays([first.items, second.items]))
        width = int(codes.max(initial=0)) + 1
        keys = np.concatenate((first.owners, second.owners)) * width + codes
        left_keys, right_keys = keys[: len(first.items)], keys[len(first.items) :]
        if name == "array_has_all":
            absent = ~np.isin(right_keys, left_keys)
            missing = np.bincount(second.owners[absent], minlength=second.count)
            return from_flags(missing == 0, all_valid(left, right))
        hit = np.isin(left_keys, right_keys)
        if name == "array_has_any":
            present = validity(first.items)
            shared = np.bincount(
                first.owners[hit if present is None else hit & present], minlength=first.count
            )
            return from_flags(shared > 0, all_valid(left, right))
        keep = _firsts(first) & (hit if name == "array_intersect" else ~hit)
        valid = all_valid(left, right)
        found = filtered(first, keep, to_arrow(call.type))
        return (
            found
            if valid is None
            else pc.if_else(from_flags(valid), found, pa.nulls(1, found.type)[0])
        )

    return over_arrays(run)


def _flatten(call: Call) -> Kernel:
    """An array of arrays as one array; NULLs among the arrays are left out."""
    arrow = to_arrow(call.type)

    def run(column: pa.Array) -> pa.Array:
        outer = Lists(column)
        inner = list_lengths(outer.items)
        lengths = np.bincount(outer.owners, inner, outer.count).astype(np.int64)
        return made(outer.items.flatten(), lengths, arrow, outer.valid)

    return over_first(run)


# Totals


def _total_type(arguments: Sequence[Expression]) -> SqlType:
    element = element_of(arguments[0])
    if element.is_integer or element.kind is Kind.NULL:
        return BIGINT
    if element.kind is Kind.DECIMAL:
        return decimal(38, element.scale)
    return DOUBLE


def _bind_total(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    check_count(name, arguments, 1, position)
    lists = as_array(arguments[0], name, 1, position)
    element = element_of(lists)
    if element.kind is Kind.NULL:
        lists = convert(lists, array(BIGINT))
    elif not element.is_numeric:
        raise ProgrammingError(
            f"{name.upper()} needs an array of numbers, not {lists.type}", position=position
        )
    if name == "array_avg" or element.is_approximate:
        lists = convert(lists, array(DOUBLE))
        return (lists,), DOUBLE
    return (lists,), _total_type((lists,))


def _bind_extreme(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    check_count(name, arguments, 1, position)
    lists = as_array(arguments[0], name, 1, position)
    if element_of(lists).is_nested:
        raise ProgrammingError(
            f"{name.upper()} cannot compare {element_of(lists)}", position=position
        )
    return (lists,), element_of(lists)


# For the INTEGER lists [[1, NULL, 2], [], [5]], in `run`:
#     owners   [0, 0, 2]     of the elements that aren't NULL
#     items    [1, 2, 5]
#     counts   [2, 0, 1]     for each list, its elements that aren't NULL
#     grouped  g = [0, 2], v_sum = [3, 5]
#     rows     [0, −1, 1]    for each list, its row in `grouped`; −1 (NULL) if it has no elements
# Exact sums are in 128 or 256 bits, so that only the total can overflow.
def _total(call: Call) -> Kernel:
    arrow, is_average = to_arrow(call.type), call.function == "array_avg"

    def run(column: pa.Array) -> pa.Array:
        lists = Lists(column)
        present = validity(lists.items)
        owners = lists.owners if present is None else lists.owners[present]
        items = lists.items if present is None else lists.items.drop_null()
        counts = np.bincount(owners, minlength=lists.count)
        if call.type.kind is Kind.DOUBLE:
            with np.errstate(all="ignore"):
                sums = np.bincount(owners, numbers(items, np.float64), lists.count)
                values = sums / np.maximum(counts, 1) if is_average else sums
            if np.isinf(values).any() and np.isfinite(numbers(items, np.float64)).all():
                raise DataError("overflow")
            return from_numbers(values, arrow, counts > 0)
        wide = (
            pa.decimal256(76, call.type.scale)
            if call.type.kind is Kind.DECIMAL
            else pa.decimal128(38, 0)
        )
        grouped = (
            pa.table({"g": indexes(owners), "v": pc.cast(items, wide)})
            .group_by("g")
            .aggregate([("v", "sum")])
        )
        rows = np.full(lists.count, -1, np.int64)
        rows[numbers(grouped["g"].combine_chunks(), np.int64)] = np.arange(grouped.num_rows)
        totals = grouped["v_sum"].combine_chunks()
        try:
            return pc.cast(totals, arrow).take(indexes(np.maximum(rows, 0), rows >= 0))
        except pa.ArrowInvalid:
            raise DataError("overflow") from None

    return over_first(run)


# For [[3, NULL, 1], [2]] and ARRAY_MIN, in `run`:
#     candidates  [0, 2, 3]  the indexes of the elements that aren't NULL
#     ranks       [3, 1, 2]
#     owners      [0, 0, 1]
#     order       [1, 0, 2]  indexes into `candidates`, by owner and then by rank
#     is_first    [T, F, T]  whether an index in `order` is the first of its owner
#     best        [2, 3]     for each list, the index of its smallest element; −1 if it has none
def _extreme(call: Call) -> Kernel:
    is_least = call.function == "array_min"

    def run(column: pa.Array) -> pa.Array:
        lists = Lists(column)
        present = validity(lists.items)
        candidates = np.arange(len(lists.items)) if present is None else np.flatnonzero(present)
        ranks = _ranks(lists.items)[candidates]
        owners = lists.owners[candidates]
        order = np.lexsort((ranks if is_least else -ranks, owners))
        best = np.full(lists.count, -1, np.int64)
        sorted_owners = owners[order]
        is_first = np.ones(len(order), bool)
        is_first[1:] = sorted_owners[1:] != sorted_owners[:-1]
        best[sorted_owners[is_first]] = candidates[order[is_first]]
        return lists.items.take(indexes(np.maximum(best, 0), best >= 0))

    return over_first(run)


def _bind_only(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    check_count(name, arguments, 1, position)
    lists = as_array(arguments[0], name, 1, position)
    return (lists,), element_of(lists)


def _only(call: Call) -> Kernel:
    def run(column: pa.Array) -> pa.Array:
        lists = Lists(column)
        longest = int(lists.lengths.max(initial=0))
        if longest > 1:
            raise DataError(f"ELEMENT expects an array of one value, not {longest}")
        return lists.items.take(
            indexes(np.where(lists.lengths, lists.starts, 0), lists.lengths > 0)
        )

    return over_first(run)


# Ranges and the rest


# For RANGE(1, 6, 2) and RANGE(3, 0, −1), in `run`:
#     span       [5, 3]              the distance to the end, without a sign
#     lengths    [3, 3]              span / step, rounded up
#     positions  [0, 1, 2, 0, 1, 2]
#     items      [1, 3, 5, 3, 2, 1]  start + position * step
def _range(call: Call) -> Kernel:
    """RANGE(stop), RANGE(start, stop[, step]): without the stop. ARRAY_SERIES: with the stop."""
    inclusive = call.function == "array_series"

    def run(*columns: pa.Array) -> pa.Array:
        mask = all_valid(*columns)
        values = [numbers(column, np.int64) for column in columns]
        start, stop = (np.zeros_like(values[0]), values[0]) if len(values) == 1 else values[:2]
        step = values[2] if len(values) == 3 else np.ones_like(start)
        if mask is not None:
            start, stop, step = (
                np.where(mask, start, 0),
                np.where(mask, stop, -1),
                np.where(mask, step, 1),
            )
        if (step == 0).any():
            raise DataError("the step of a range must not be 0")
        # Checked in floats first, as the difference may exceed 64 bits.
        if (np.abs((stop.astype(float) - start) / step) > MOST_ITEMS).any():
            raise DataError("a range is too long", hint=f"the maximum is {MOST_ITEMS} elements")
        span = (stop - start + (np.sign(step) if inclusive else 0)) * np.sign(step)
        lengths = np.maximum(-(-span // np.abs(step)), 0)
        if mask is not None:
            lengths = np.where(mask, lengths, 0)
        if lengths.sum() > MOST_ITEMS:
            raise DataError("the ranges are too long", hint=f"the maximum is {MOST_ITEMS} elements")
        positions = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        items = np.repeat(start, lengths) + positions * np.repeat(step, lengths)
        return made(from_numbers(items, pa.int64()), lengths, pa.list_(pa.int64()), mask)

    return over_arrays(run)


def _fill(call: Call) -> Kernel:
    arrow = to_arrow(call.type)

    def run(value: pa.Array, count: pa.Array) -> pa.Array:
        valid = validity(count)
        lengths = np.maximum(numbers(count, np.int64), 0)
        lengths = lengths if valid is None else np.where(valid, lengths, 0)
        if lengths.sum() > MOST_ITEMS:
            raise DataError(
                "the arrays are too long", hint=f"the maximum is {MOST_ITEMS} elements at a time"
            )
        return made(
            value.take(indexes(np.repeat(np.arange(len(value)), lengths))), lengths, arrow, valid
        )

    return over_arrays(run)


def _bind_fill(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    check_count(name, arguments, 2, position)
    value, count = arguments
    if not count.type.is_integer and count.type.kind is not Kind.NULL:
        raise ProgrammingError(
            f"argument 2 of {name.upper()} must be BIGINT, not {count.type}", position=position
        )
    return (value, convert(count, BIGINT)), array(value.type)


def _bind_nested(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    check_count(name, arguments, 1, position)
    lists = as_array(arguments[0], name, 1, position)
    if element_of(lists).kind is Kind.NULL:
        return (convert(lists, array(array(NULL))),), array(NULL)
    if element_of(lists).kind is not Kind.ARRAY:
        raise ProgrammingError(
            f"FLATTEN needs an array of arrays, not {lists.type}", position=position
        )
    return (lists,), element_of(lists)


_ONE_ARRAY = signature(ARRAY, result=lambda arguments: arguments[0].type)
_SORT = signature(ARRAY, VARCHAR, result=lambda arguments: arguments[0].type, optional=1)
_TYPE = "the type of x"
FUNCTIONS = (
    list_function(
        "array_sort",
        "x ARRAY [, order VARCHAR [, nulls VARCHAR]]",
        _TYPE,
        _bind_sort,
        _sort,
        names=("ARRAY_SORT", "LIST_SORT"),
        can_fail=True,
    ),
    list_function(
        "array_reverse_sort",
        "x ARRAY [, nulls VARCHAR]",
        _TYPE,
        _bind_sort,
        _sort,
        names=("ARRAY_REVERSE_SORT", "LIST_REVERSE_SORT"),
        can_fail=True,
    ),
    list_function(
        "array_distinct",
        "x ARRAY",
        _TYPE,
        _ONE_ARRAY,
        _distinct,
        names=("ARRAY_DISTINCT", "LIST_DISTINCT"),
    ),
    list_function(
        "array_reverse",
        "x ARRAY",
        _TYPE,
        _ONE_ARRAY,
        _reverse,
        names=("ARRAY_REVERSE", "LIST_REVERSE"),
    ),
    *(
        list_function(name, "x ARRAY, y ARRAY", result, bind_two(kind), _set_operation, names=names)
        for name, result, kind, names in (
            ("array_has_all", "BOOLEAN", lambda kind: BOOLEAN, ("ARRAY_HAS_ALL", "LIST_HAS_ALL")),
            (
                "array_has_any",
                "BOOLEAN",
                lambda kind: BOOLEAN,
                ("ARRAY_HAS_ANY", "LIST_HAS_ANY", "ARRAYS_OVERLAP"),
            ),
            ("array_intersect", _TYPE, same_type, ("ARRAY_INTERSECT", "LIST_INTERSECT")),
            ("array_except", _TYPE, same_type, ("ARRAY_EXCEPT",)),
        )
    ),
    list_function(
        "flatten",
        "x ARRAY of ARRAYs",
        "the elements' type",
        _bind_nested,
        _flatten,
        names=("FLATTEN",),
    ),
    *(
        list_function(
            name, "x ARRAY of numbers", result, _bind_total, _total, names=names, can_fail=True
        )
        for name, result, names in (
            ("array_sum", "BIGINT, DECIMAL(38, s) or DOUBLE", ("ARRAY_SUM", "LIST_SUM")),
            ("array_avg", "DOUBLE", ("ARRAY_AVG", "LIST_AVG", "ARRAY_AVERAGE")),
        )
    ),
    *(
        list_function(name, "x ARRAY", "the element's type", _bind_extreme, _extreme, names=names)
        for name, names in (
            ("array_min", ("ARRAY_MIN", "LIST_MIN")),
            ("array_max", ("ARRAY_MAX", "LIST_MAX")),
        )
    ),
    list_function(
        "array_only",
        "x ARRAY",
        "the element's type",
        _bind_only,
        _only,
        names=("ELEMENT",),
        can_fail=True,
    ),
    *(
        list_function(
            name,
            "[start BIGINT,] stop BIGINT [, step BIGINT]",
            "BIGINT[]",
            signature(BIGINT, BIGINT, BIGINT, result=array(BIGINT), optional=2),
            _range,
            names=names,
            can_fail=True,
        )
        for name, names in (
            ("array_range", ("RANGE",)),
            ("array_series", ("ARRAY_SERIES", "GENERATE_SERIES")),
        )
    ),
    list_function(
        "array_fill",
        "item, count BIGINT",
        "ARRAY",
        _bind_fill,
        _fill,
        names=("ARRAY_FILL",),
        can_fail=True,
    ),
)
