"""Functions on ARRAY, under the names of PostgreSQL and DuckDB: slices, concatenation, search,
removal, replacement.

Positions count from 1. Where elements are compared, two NULLs are the same value, and NaN equals
itself. The result for a NULL array is NULL, except that appending and concatenation treat it as
empty. The elements of all arrays are processed at once, in the flat column that the arrays refer
to.
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
"""The largest number of elements that a list function may return for one batch."""


# For the column [[a, b], NULL, [c]]:
#     items      [a, b, c]
#     lengths    [2, 0, 1]
#     ends       [0, 2, 2, 3]  one more than there are lists
#     starts     [0, 2, 2]
#     valid      [True, False, True]
#     owners     [0, 0, 2]
#     positions  [0, 1, 0]
class Lists:
    """A list column as numpy arrays.

    items: the elements of all lists that aren't NULL, concatenated (an Arrow array).
    lengths: the number of elements of each list; 0 for NULL.
    ends: 0, then the end of each list in `items`.
    starts: where each list begins in `items`.
    valid: which lists aren't NULL; None if no list is.
    count: the number of lists.
    """

    def __init__(self, column: pa.Array) -> None:
        self.items = column.flatten()
        self.lengths = list_lengths(column)
        self.ends = np.concatenate(([0], np.cumsum(self.lengths)))
        self.starts = self.ends[:-1]
        self.valid = validity(column)
        self.count = len(column)

    @property
    def owners(self) -> Numbers:
        """For each element, the index of its list."""
        return np.repeat(np.arange(self.count), self.lengths)

    @property
    def positions(self) -> Numbers:
        """For each element, its position in its list, from 0."""
        positions: Numbers = np.arange(len(self.items)) - np.repeat(self.starts, self.lengths)
        return positions


def made(items: pa.Array, lengths: Numbers, arrow: pa.DataType, valid: Numbers | None) -> pa.Array:
    """A list column of `items` split into lists of `lengths`.

    lengths: the number of elements of each list; 0 where a list is NULL.
    arrow: the type of the column.
    valid: which lists aren't NULL; None if no list is.
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if len(offsets) and offsets[-1] > MOST_ITEMS:
        raise DataError(
            "the arrays are too long", hint=f"the maximum is {MOST_ITEMS} elements at a time"
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
    """The rows where all columns have a value; None if there are no NULLs at all."""
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
    """The argument if it is an ARRAY, or a NULL as an empty-typed ARRAY; ProgrammingError for any
    other type.
    """
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
    """An array and one of its possible elements, in the element type that holds both."""
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
            f"{name.upper()} can't use {item.type} as an element of {lists.type}",
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
    """Returns a `bind` for an array, an element (before the array with `item_first`), and further
    arguments of the types `others`.
    """

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
    """Binds any number of arrays, in their common type."""
    if not arguments:
        raise ProgrammingError(
            f"{name.upper()} expects at least 1 argument, not 0", position=position
        )
    arrays = [as_array(item, name, index, position) for index, item in enumerate(arguments, 1)]
    bound = tuple(coerce(arrays, name.upper(), position))
    return bound, bound[0].type


def bind_two(result: Callable[[SqlType], SqlType]) -> Any:
    """Returns a `bind` for two arrays in their common type, from which `result` derives the
    result's type.
    """

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
    """The result's type of a function that returns an array like its first argument."""
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


# For [[a, b, c], [d]] and the slices [2:3] and [1:NULL], in `run`:
#     begin    [1, 0]        from 0, clipped to the lists' lengths
#     end      [3, 2**31]
#     lengths  [2, 1]        of the slices
#     starts + begin  [1, 3]
#     _runs(…)        [1, 2, 3]  the indexes of the elements b, c and d
def _slice(call: Call) -> Kernel:
    """`a[i:j]`: from the i-th to the j-th element; negative numbers count from the end. A NULL
    bound is open, and bounds out of range are clipped.
    """
    arrow = to_arrow(call.type)

    def run(column: pa.Array, first: pa.Array, last: pa.Array) -> pa.Array:
        lists = Lists(column)
        begin, end = (
            np.where(bound < 0, bound + lists.lengths + 1, bound)
            for bound in (_bounds(first, 1), _bounds(last, 2**31))
        )
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
    """The bounds of a slice, `otherwise` for NULL; clipped so that sums with them don't
    overflow.
    """
    values = np.clip(numbers(column, np.int64), -(2**31), 2**31)
    valid = validity(column)
    return values if valid is None else np.where(valid, values, otherwise)


# For the starts [5, 1] and the lengths [3, 2]:
#     begins  [0, 3]                 where each run begins in the result
#     result  [5, 6, 7, 1, 2] =
#             [0, 1, 2, 3, 4] + [5, 5, 5, −2, −2]
def _runs(starts: Numbers, lengths: Numbers) -> Numbers:
    """The numbers start, start + 1, … of each run, concatenated."""
    total = int(lengths.sum())
    begins = np.concatenate(([0], np.cumsum(lengths)))[:-1]
    numbered: Numbers = np.arange(total) + np.repeat(starts - begins, lengths)
    return numbered


def _cat(call: Call) -> Kernel:
    arrow = to_arrow(call.type)
    return over_arrays(lambda *columns: joined(columns, arrow))


# For the columns [[a], [b]] and [[c, d], []]:
#     items   [a, b, c, d]
#     shifts  [0, 2]              where the items of each column begin in `items`
#     starts  [0, 2, 1, 4]        for each row and column, where its list begins in `items`
#     runs    [1, 2, 1, 0]        and its length
#     lengths [3, 1]              of the results [a, c, d] and [b]
def joined(columns: Sequence[pa.Array], arrow: pa.DataType) -> pa.Array:
    """The arrays of each row, concatenated; NULL only where all of them are NULL."""
    operands = [Lists(column) for column in columns]
    shifts = np.cumsum([0, *(len(operand.items) for operand in operands)])[:-1]
    items = pa.concat_arrays([operand.items for operand in operands])
    starts = np.stack(
        [operand.starts + shift for operand, shift in zip(operands, shifts, strict=True)], axis=1
    ).reshape(-1)
    runs = np.stack([operand.lengths for operand in operands], axis=1).reshape(-1)
    lengths = runs.reshape(-1, len(operands)).sum(axis=1)
    valid = np.zeros(len(columns[0]), bool)
    for operand in operands:
        valid |= True if operand.valid is None else operand.valid
    return made(items.take(indexes(_runs(starts, runs))), lengths, arrow, valid)


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
    """For each element, whether it equals the item of its list's row."""
    return same_values(lists.items, item.take(indexes(lists.owners)))


def _found(lists: Lists, item: pa.Array) -> Numbers:
    """For each list, whether it contains its row's item."""
    return np.bincount(lists.owners[_matches(lists, item)], minlength=lists.count) > 0


def contains(column: pa.Array, item: pa.Array) -> pa.Array:
    """Whether each list contains the item of its row; NULL if the list or the item is NULL."""
    lists = Lists(column)
    return from_flags(_found(lists, item), all_valid(column, item))


# For [[b, a, a], [b]] and the items [a, a]:
#     hit    [F, T, T, F]   for each element, whether it matches
#     first  [2, 2**31 − 1] the smallest position of a match, from 1; the second list has none
def _position(column: pa.Array, item: pa.Array) -> pa.Array:
    """The position of the first match in each list; NULL if there is none."""
    lists = Lists(column)
    hit = _matches(lists, item)
    first = np.full(lists.count, 2**31 - 1, np.int64)
    np.minimum.at(first, lists.owners[hit], lists.positions[hit] + 1)
    found = first < 2**31 - 1
    if lists.valid is not None:
        found &= lists.valid
    return from_numbers(first.astype(np.int32), pa.int32(), found)


def _positions(column: pa.Array, item: pa.Array) -> pa.Array:
    """The positions of all matches in each list."""
    lists = Lists(column)
    hit = _matches(lists, item)
    lengths = np.bincount(lists.owners[hit], minlength=lists.count)
    positions = from_numbers((lists.positions[hit] + 1).astype(np.int32), pa.int32())
    return made(positions, lengths, pa.list_(pa.int32()), lists.valid)


def filtered(lists: Lists, keep: Numbers, arrow: pa.DataType) -> pa.Array:
    """The lists with only the elements at which `keep` is true."""
    lengths = np.bincount(lists.owners[keep], minlength=lists.count)
    return made(lists.items.take(indexes(np.flatnonzero(keep))), lengths, arrow, lists.valid)


def _remove(call: Call) -> Kernel:
    arrow = to_arrow(call.type)

    def run(column: pa.Array, item: pa.Array) -> pa.Array:
        lists = Lists(column)
        return filtered(lists, ~_matches(lists, item), arrow)

    return over_arrays(run)


# For [[a, b], [a]] with a replaced by x in row 0 and by y in row 1, in `run`:
#     both    [a, b, a, x, y]  the elements, then the new values by row
#     source  [3, 1, 4]        for each element, the index of its new value in `both`
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


_INTEGER, _FLAG = (lambda kind: INTEGER), (lambda kind: BOOLEAN)  # results for any array type
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
