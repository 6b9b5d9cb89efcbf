"""Kernels with options: functions most of whose arguments are equal for all rows.

Most text kernels of Arrow accept a pattern, a length or a separator as an option: one for the whole
call. `by_option` runs such a kernel if the arguments after the first are scalars, as they nearly
always are. If they differ from row to row, either a Python function is called for every row
(nothing else in the engine does that), or the kernel runs once for each combination of options,
over the rows that have it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa

from runnel.expressions.function import Datum, Kernel, spread
from runnel.expressions.kernels.buffers import null_scalar, pack
from runnel.expressions.kernels.python_values import python_values
from runnel.expressions.nodes import Call
from runnel.sqltypes import BIGINT, SqlType, to_arrow

MakeKernel = Callable[..., Callable[[Datum], Datum]]
"""Returns a kernel over the data for the values of the options."""


def by_option(
    make_kernel: MakeKernel, of_row: Callable[..., Any] | None = None, *, takes_nulls: bool = False
) -> Callable[[Call], Kernel]:
    """Compiles a call whose first argument is data and whose other arguments are options.

    make_kernel: returns a kernel over the data for some options. The kernels of the last few
      combinations of options are cached.
    of_row: the value of one row, for (value, *options). Without it, rows are grouped by their
      options.
    takes_nulls: if false, a NULL anywhere makes the result NULL. If true (which requires `of_row`),
      only a NULL as the first argument does, and a NULL option is passed as None.
    """

    def compile_call(call: Call) -> Kernel:
        types = [item.type for item in call.arguments]
        result = call.type
        cached = lru_cache(maxsize=8)(make_kernel)

        def run(value: Datum, *options: Datum) -> Datum:
            if isinstance(value, pa.Scalar) and not value.is_valid:
                return null_scalar(result)
            if all(isinstance(option, pa.Scalar) for option in options):
                if not takes_nulls and not all(option.is_valid for option in options):
                    return null_like(value, result)
                return cached(*(option.as_py() for option in options))(value)
            if of_row is None:
                return _by_group((value, *options), types[1:], result, cached)
            return _row_by_row(
                (value, *options),
                types,
                result,
                _of_value(of_row) if takes_nulls else _of_all(of_row),
            )

        return run

    return compile_call


def null_like(datum: Datum, sql_type: SqlType) -> Datum:
    """NULL as a scalar, or for every row of an array, whichever `datum` is."""
    return (
        null_scalar(sql_type)
        if isinstance(datum, pa.Scalar)
        else pa.nulls(len(datum), to_arrow(sql_type))
    )


def _row_by_row(
    arguments: tuple[Datum, ...], types: list[SqlType], result: SqlType, of_row: Callable[..., Any]
) -> pa.Array:
    """Calls `of_row` with the values of each row."""
    rows = next(len(item) for item in arguments if not isinstance(item, pa.Scalar))
    columns = [
        python_values(spread(item, rows), item_type)
        for item, item_type in zip(arguments, types, strict=True)
    ]
    return pack([of_row(*row) for row in zip(*columns, strict=True)], result)


def _of_all(of_row: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *row: None if any(item is None for item in row) else of_row(*row)


def _of_value(of_row: Callable[..., Any]) -> Callable[..., Any]:
    return lambda value, *options: None if value is None else of_row(value, *options)


# For the options ('a', 'b', 'a') in rows 0 to 2:
#     groups     {('a',): [0, 2], ('b',): [1]}
#     chunks     the results of rows [0, 2], and of row [1]
#     order      [0, 2, 1]  the row of each value of the concatenated chunks
#     positions  [0, 2, 1]  the inverse: the position of each row's value in the chunks
def _by_group(
    arguments: tuple[Datum, ...], types: list[SqlType], result: SqlType, make: MakeKernel
) -> pa.Array:
    """Runs the kernel of each combination of options over the rows that have it."""
    rows = next(len(item) for item in arguments if not isinstance(item, pa.Scalar))
    values = spread(arguments[0], rows)
    columns = [
        python_values(spread(item, rows), kind)
        for item, kind in zip(arguments[1:], types, strict=True)
    ]
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row, options in enumerate(zip(*columns, strict=True)):
        groups.setdefault(options, []).append(row)
    chunks: list[pa.Array] = []
    order: list[int] = []
    for options, members in groups.items():
        is_null = any(option is None for option in options)
        chosen = None if is_null else values.take(pack(members, BIGINT))
        chunks.append(
            pa.nulls(len(members), to_arrow(result)) if chosen is None else make(*options)(chosen)
        )
        order.extend(members)
    positions = [0] * rows
    for position, row in enumerate(order):
        positions[row] = position
    return (
        pa.concat_arrays(chunks).take(pack(positions, BIGINT))
        if chunks
        else pa.nulls(0, to_arrow(result))
    )


def of_distinct(function: Callable[[Any], Any], source: SqlType, result: SqlType) -> Kernel:
    """A kernel that calls a Python function once per distinct text."""

    def run(datum: Datum) -> Datum:
        if isinstance(datum, pa.Scalar):
            return run(pa.repeat(datum, 1))[0]
        encoded = datum.dictionary_encode()
        return pack(
            [function(value) for value in python_values(encoded.dictionary, source)], result
        ).take(encoded.indices)

    return run
