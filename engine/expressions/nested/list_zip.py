"""LIST_ZIP: the first elements of several ARRAYs as a ROW, then the second elements, and so on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Numbers, from_numbers, numbers
from runnel.errors import Position, ProgrammingError
from runnel.expressions.function import Bound, Kernel, over_arrays
from runnel.expressions.nested.lists import Lists, as_array, element_of, list_function, made
from runnel.expressions.nodes import Call, Expression
from runnel.sqltypes import BOOLEAN, Kind, array, to_arrow, unnamed_row


def _bind(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """Accepts ARRAYs, and a BOOLEAN at the end that says whether to cut to the shortest one."""
    has_flag = len(arguments) > 1 and arguments[-1].type.kind is Kind.BOOLEAN
    columns = arguments[:-1] if has_flag else arguments
    if not columns:
        raise ProgrammingError("LIST_ZIP expects at least 1 argument, not 0", position=position)
    lists = [as_array(item, name, index, position) for index, item in enumerate(columns, 1)]
    bound = (*lists, arguments[-1]) if has_flag else tuple(lists)
    return bound, array(unnamed_row(*map(element_of, lists)))


def _compile(call: Call) -> Kernel:
    has_flag = call.arguments[-1].type == BOOLEAN
    arrow = to_arrow(call.type)

    def run(*columns: pa.Array) -> pa.Array:
        lists = [Lists(column) for column in (columns[:-1] if has_flag else columns)]
        lengths = np.maximum.reduce([item.lengths for item in lists])
        if has_flag:
            is_cut = numbers(columns[-1].fill_null(False).cast(pa.int8()), np.int8).astype(bool)
            shortest = np.minimum.reduce([item.lengths for item in lists])
            lengths = np.where(is_cut, shortest, lengths)
        fields = list(arrow.value_type)
        padded = [_padded(item, lengths) for item in lists]
        rows = pa.StructArray.from_arrays(padded, fields=fields)
        return made(rows, lengths, arrow, None)

    return over_arrays(run)


# For the lists [[a], [b, c]] and the lengths [2, 1]:
#     owners     [0, 0, 1]     the index of the list of each element of the result
#     positions  [0, 1, 0]     its position in this list
#     inside     [T, F, T]     whether the list has it
#     indexes    [0, –, 1]     its index among all elements a, b, c
#     result     [a, NULL, b]
def _padded(lists: Lists, lengths: Numbers) -> pa.Array:
    """The elements of lists that are cut or filled up with NULL to `lengths`, concatenated."""
    owners = np.repeat(np.arange(len(lengths)), lengths)
    starts = np.cumsum(lengths) - lengths
    positions = np.arange(len(owners)) - np.repeat(starts, lengths)
    inside = positions < lists.lengths[owners]
    indexes = from_numbers(
        np.where(inside, lists.starts[owners] + positions, 0).astype(np.int64), pa.int64()
    )
    absent = pa.array(~inside)
    return lists.items.take(pc.if_else(absent, pa.scalar(None, pa.int64()), indexes))


FUNCTIONS = (
    list_function(
        "list_zip",
        "x ARRAY, … [, cut BOOLEAN]",
        "ARRAY of ROW(f1, f2, …)",
        _bind,
        _compile,
        names=("LIST_ZIP", "ARRAY_ZIP"),
        can_fail=True,
    ),
)
