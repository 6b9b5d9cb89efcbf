"""Functions on ARRAY, under PostgreSQL's names and DuckDB's: slices, search, building, sorting,
totals.

Places count from 1. What compares elements takes two NULLs for the same value, NaN for equal to
itself; an array that is NULL gives NULL, except that appending to it, or joining it with another,
takes it for empty. Elements are worked on all at once, in the flat column behind the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Numbers, from_flags, from_numbers, indexes, numbers, validity
from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions.coercion import check_count, coerce, convert
from runnel.expressions.function import (
    Bound,
    Function,
    Kernel,
    always_may_fail,
    never_fails,
    over_arrays,
)
from runnel.expressions.kernels.sameness import list_lengths, same_values
from runnel.expressions.nodes import Call, Expression
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    INTEGER,
    NULL,
    Kind,
    SqlType,
    array,
    common_type,
    to_arrow,
)

MOST_ITEMS = 100_000_000
"""No list function makes more elements than this in one batch."""


class Lists:
    """A list column as numpy: for each element its owner, for each list where it begins in `items`
    and how long it is."""

    def __init__(self, column: pa.Array) -> None:
        self.items = column.flatten()
        self.lengths = list_lengths(column)
        self.ends = np.concatenate(([0], np.cumsum(self.lengths)))
        self.starts = self.ends[:-1]
        self.valid = validity(column)
        self.count = len(column)

    @property
    def owners(self) -> Numbers:
        """The number of its list, for each element."""
        return np.repeat(np.arange(self.count), self.lengths)

    @property
    def places(self) -> Numbers:
        """The place in its list from 0, for each element."""
        places: Numbers = np.arange(len(self.items)) - np.repeat(self.starts, self.lengths)
        return places


def made(items: pa.Array, lengths: Numbers, arrow: pa.DataType, valid: Numbers | None) -> pa.Array:
    """A list column of `items` cut into `lengths` (0 where not valid)."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if len(offsets) and offsets[-1] > MOST_ITEMS:
        raise DataError(
            "the arrays are too long", hint=f"the most is {MOST_ITEMS} elements at a time"
        )
    buffer = (
        None
        if valid is None or valid.all()
        else pa.py_buffer(np.packbits(valid, bitorder="little"))
    )
    return pa.Array.from_buffers(
        arrow, len(lengths), [buffer, pa.py_buffer(offsets.astype(np.int32))], children=[items]
    )


def all_valid(*columns: pa.Array) -> Numbers | None:
    """Where all columns have a value; None where all do everywhere."""
    found: Numbers | None = None
    for column in columns:
        valid = validity(column)
        if valid is not None:
            found = valid if found is None else found & valid
    return found


# Binding


def element_of(expression: Expression) -> SqlType:
    assert expression.type.element is not None
    return expression.type.element


def as_array(argument: Expression, name: str, index: int, position: Position | None) -> Expression:
    if argument.type.kind is Kind.NULL:
        return convert(argument, array(NULL))
    if argument.type.kind is not Kind.ARRAY:
        raise ProgrammingError(
            f"argument {index} of {name.upper()} must be an ARRAY, not {argument.type}",
            position=argument.position or position,
        )
    return argument


def _fitted(
    name: str, lists: Expression, item: Expression, position: Position | None
) -> tuple[Expression, Expression]:
    """An array and an element of its, in the type that holds both."""
    lists = as_array(lists, name, 1, position)
    element = element_of(lists)
    target = item.type if element.kind is Kind.NULL else common_type(element, item.type)
    if item.type.kind is Kind.VARCHAR and element.kind not in (Kind.VARCHAR, Kind.NULL):
        (_, item), target = (
            coerce([Expression(type=element), item], name.upper(), position),
            element,
        )
    if target is None:
        raise ProgrammingError(
            f"{name.upper()} can't take {item.type} for an element of {lists.type}",
            hint="add an explicit CAST",
            position=item.position or position,
        )
    return convert(lists, array(target)), convert(item, target)


def _with_item(
    result: Callable[[SqlType], SqlType],
    *,
    item_first: bool = False,
    others: tuple[SqlType, ...] = (),
) -> Any:
    """Binds an array, an element (in the other order with `item_first`), and what else."""

    def bind(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
        check_count(name, arguments, 2 + len(others), position)
        first, second, *rest = arguments
        lists, item = (
            _fitted(name, second, first, position)
            if item_first
            else _fitted(name, first, second, position)
        )
        bound = (item, lists) if item_first else (lists, item)
        return (*bound, *(convert(a, t) for a, t in zip(rest, others, strict=True))), result(
            lists.type
        )

    return bind


def bind_many(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """Any number of arrays, in their common type."""
    if not arguments:
        raise ProgrammingError(
            f"{name.upper()} takes at least 1 argument, not 0", position=position
        )
    given = [as_array(item, name, place, position) for place, item in enumerate(arguments, 1)]
    bound = tuple(coerce(given, name.upper(), position))
    return bound, bound[0].type


def bind_two(result: Callable[[SqlType], SqlType]) -> Any:
    def bind(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
        check_count(name, arguments, 2, position)
        bound, _ = bind_many(name, arguments, position)
        return bound, result(bound[0].type)

    return bind


def _bind_replace(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    check_count(name, arguments, 3, position)
    lists, old = _fitted(name, arguments[0], arguments[1], position)
    lists, new = _fitted(name, lists, arguments[2], position)
    return (lists, convert(old, element_of(lists)), new), lists.type


def same_type(kind: SqlType) -> SqlType:
    return kind


def _bind_slice(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    check_count(name, arguments, 3, position)
    if arguments[0].type.kind is Kind.VARCHAR:
        raise ProgrammingError(
            "a text has no slices", hint="use SUBSTRING", position=arguments[0].position or position
        )
    lists = as_array(arguments[0], name, 1, position)
    for item in arguments[1:]:
        if not item.type.is_integer and item.type.kind is not Kind.NULL:
            raise ProgrammingError(
                f"the bound of a slice must be an integer, not {item.type}",
                position=item.position or position,
            )
    return (lists, *(convert(item, BIGINT) for item in arguments[1:])), lists.type


# Kernels


def _slice(call: Call) -> Kernel:
    """`a[i:j]`: from the i-th to the j-th element; a NULL bound is open; bounds outside are cut."""
    arrow = to_arrow(call.type)

    def run(column: pa.Array, first: pa.Array, last: pa.Array) -> pa.Array:
        lists = Lists(column)
        begin, end = _bounds(first, 1), _bounds(last, 2**31)
        begin = np.clip(begin - 1, 0, lists.lengths)
        lengths = np.maximum(np.minimum(end, lists.lengths) - begin, 0)
        return made(
            lists.items.take(indexes(_runs(lists.starts + begin, lengths))),
            lengths,
            arrow,
            lists.valid,
        )

    return over_arrays(run)


def _bounds(column: pa.Array, otherwise: int) -> Numbers:
    values = np.clip(numbers(column, np.int64), -(2**31), 2**31)
    valid = validity(column)
    return values if valid is None else np.where(valid, values, otherwise)


def _runs(starts: Numbers, lengths: Numbers) -> Numbers:
    """start, start + 1, … for each run."""
    total = int(lengths.sum())
    begins = np.concatenate(([0], np.cumsum(lengths)))[:-1]
    places: Numbers = np.arange(total) + np.repeat(starts - begins, lengths)
    return places


def _cat(call: Call) -> Kernel:
    arrow = to_arrow(call.type)
    return over_arrays(lambda *columns: joined(columns, arrow))


def joined(columns: Sequence[pa.Array], arrow: pa.DataType) -> pa.Array:
    """The arrays of each row, one after the other; NULL where all are."""
    parts = [Lists(column) for column in columns]
    shifts = np.cumsum([0, *(len(part.items) for part in parts)])[:-1]
    items = pa.concat_arrays([part.items for part in parts])
    starts = np.stack(
        [part.starts + shift for part, shift in zip(parts, shifts, strict=True)], axis=1
    ).reshape(-1)
    pieces = np.stack([part.lengths for part in parts], axis=1).reshape(-1)
    lengths = pieces.reshape(-1, len(parts)).sum(axis=1)
    valid = np.zeros(len(columns[0]), bool)
    for part in parts:
        valid |= True if part.valid is None else part.valid
    return made(items.take(indexes(_runs(starts, pieces))), lengths, arrow, valid)


def _ones(column: pa.Array) -> pa.Array:
    """Each value as an array of one element."""
    return pa.ListArray.from_arrays(
        from_numbers(np.arange(len(column) + 1, dtype=np.int32), pa.int32()), column
    )


def _append(call: Call) -> Kernel:
    join = _cat(call)
    arrow = to_arrow(call.type)
    if call.function == "array_append":
        return over_arrays(lambda lists, item: join(lists, _ones(item).cast(arrow)))
    return over_arrays(lambda item, lists: join(_ones(item).cast(arrow), lists))


def _matches(lists: Lists, item: pa.Array) -> Numbers:
    """For each element, whether it is the value sought in its array."""
    return same_values(lists.items, item.take(indexes(lists.owners)))


def _found(lists: Lists, item: pa.Array) -> Numbers:
    return np.bincount(lists.owners[_matches(lists, item)], minlength=lists.count) > 0


def contains(column: pa.Array, item: pa.Array) -> pa.Array:
    """NULL is never contained: the answer is NULL."""
    lists = Lists(column)
    return from_flags(_found(lists, item), all_valid(column, item))


def _position(column: pa.Array, item: pa.Array) -> pa.Array:
    lists = Lists(column)
    hit = _matches(lists, item)
    first = np.full(lists.count, 2**31 - 1, np.int64)
    np.minimum.at(first, lists.owners[hit], lists.places[hit] + 1)
    there = first < 2**31 - 1
    if lists.valid is not None:
        there &= lists.valid
    return from_numbers(first.astype(np.int32), pa.int32(), there)


def _positions(column: pa.Array, item: pa.Array) -> pa.Array:
    lists = Lists(column)
    hit = _matches(lists, item)
    lengths = np.bincount(lists.owners[hit], minlength=lists.count)
    places = from_numbers((lists.places[hit] + 1).astype(np.int32), pa.int32())
    return made(places, lengths, pa.list_(pa.int32()), lists.valid)


def kept(lists: Lists, keep: Numbers, arrow: pa.DataType) -> pa.Array:
    lengths = np.bincount(lists.owners[keep], minlength=lists.count)
    return made(lists.items.take(indexes(np.flatnonzero(keep))), lengths, arrow, lists.valid)


def _remove(call: Call) -> Kernel:
    arrow = to_arrow(call.type)

    def run(column: pa.Array, item: pa.Array) -> pa.Array:
        lists = Lists(column)
        return kept(lists, ~_matches(lists, item), arrow)

    return over_arrays(run)


def _replace(call: Call) -> Kernel:
    arrow = to_arrow(call.type)

    def run(column: pa.Array, old: pa.Array, new: pa.Array) -> pa.Array:
        lists = Lists(column)
        both = pa.concat_arrays([lists.items, new])
        source = np.where(
            _matches(lists, old), len(lists.items) + lists.owners, np.arange(len(lists.items))
        )
        return made(both.take(indexes(source)), lists.lengths, arrow, lists.valid)

    return over_arrays(run)


def list_function(
    name: str,
    arguments: str,
    result: str,
    bind: Any,
    compile_call: Callable[[Call], Kernel],
    *,
    names: tuple[str, ...] = (),
    can_fail: bool = False,
) -> Function:
    return Function(
        name=name,
        arguments=arguments,
        result=result,
        bind=bind,
        compile=compile_call,
        sql_names=names,
        can_fail=always_may_fail if can_fail else never_fails,
        family="array",
    )


def _with_kernel(kernel: Kernel) -> Callable[[Call], Kernel]:
    return lambda call: over_arrays(kernel)


_INTEGER, _FLAG = (lambda kind: INTEGER), (lambda kind: BOOLEAN)
_TYPE = "the type of x"
FUNCTIONS = (
    list_function(
        "array_slice",
        "x ARRAY, first BIGINT, last BIGINT",
        _TYPE,
        _bind_slice,
        _slice,
        names=("ARRAY_SLICE", "LIST_SLICE"),
    ),
    list_function(
        "array_cat",
        "x ARRAY, …",
        _TYPE,
        bind_many,
        _cat,
        names=("ARRAY_CAT", "ARRAY_CONCAT", "LIST_CONCAT", "LIST_CAT"),
    ),
    list_function(
        "array_append",
        "x ARRAY, item",
        _TYPE,
        _with_item(same_type),
        _append,
        names=("ARRAY_APPEND", "LIST_APPEND"),
    ),
    list_function(
        "array_prepend",
        "item, x ARRAY",
        _TYPE,
        _with_item(same_type, item_first=True),
        _append,
        names=("ARRAY_PREPEND", "LIST_PREPEND"),
    ),
    list_function(
        "array_contains",
        "x ARRAY, item",
        "BOOLEAN",
        _with_item(_FLAG),
        _with_kernel(contains),
        names=("ARRAY_CONTAINS", "LIST_CONTAINS", "ARRAY_HAS", "LIST_HAS"),
    ),
    list_function(
        "array_position",
        "x ARRAY, item",
        "INTEGER",
        _with_item(_INTEGER),
        _with_kernel(_position),
        names=("ARRAY_POSITION", "LIST_POSITION", "ARRAY_INDEXOF", "LIST_INDEXOF"),
    ),
    list_function(
        "array_positions",
        "x ARRAY, item",
        "INTEGER[]",
        _with_item(lambda kind: array(INTEGER)),
        _with_kernel(_positions),
        names=("ARRAY_POSITIONS",),
    ),
    list_function(
        "array_remove",
        "x ARRAY, item",
        _TYPE,
        _with_item(same_type),
        _remove,
        names=("ARRAY_REMOVE",),
    ),
    list_function(
        "array_replace",
        "x ARRAY, old, new",
        _TYPE,
        _bind_replace,
        _replace,
        names=("ARRAY_REPLACE",),
    ),
)
