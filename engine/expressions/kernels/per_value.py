"""Kernels made of a Python function over values, for operations that no Arrow kernel has.

The function is called once per distinct value, or per distinct combination of values if several
arguments vary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from runnel.expressions.function import Datum, Kernel, spread
from runnel.expressions.kernels.buffers import null_scalar, pack
from runnel.expressions.kernels.options import null_like
from runnel.expressions.kernels.python_values import python_values
from runnel.expressions.nodes import Call
from runnel.sqltypes import Kind, SqlType


def per_value(function: Callable[..., Any], *, is_strict: bool = True) -> Callable[[Call], Kernel]:
    """Compiles a call to a kernel of `function`, which gets the Python values of the arguments.

    With `is_strict` a NULL argument makes the result NULL, without a call.
    """

    def compile_call(call: Call) -> Kernel:
        types = [item.type for item in call.arguments]
        return kernel_of(function, types, call.type, is_strict=is_strict)

    return compile_call


def kernel_of(
    function: Callable[..., Any],
    types: Sequence[SqlType],
    result: SqlType,
    *,
    is_strict: bool = True,
) -> Kernel:
    """The kernel of `function` for arguments of these types; see `per_value`."""
    has_floats = any(item.kind in (Kind.REAL, Kind.DOUBLE) for item in types)

    def run(*arguments: Datum) -> Datum:
        varying = [i for i, item in enumerate(arguments) if not isinstance(item, pa.Scalar)]
        if is_strict and any(
            isinstance(item, pa.Scalar) and not item.is_valid for item in arguments
        ):
            return null_scalar(result) if not varying else null_like(arguments[varying[0]], result)
        if not varying:
            columns = [
                python_values(spread(item, 1), kind)
                for item, kind in zip(arguments, types, strict=True)
            ]
            return pack([function(*(column[0] for column in columns))], result)[0]
        if len(varying) == 1 and _can_encode(arguments[varying[0]], is_strict):
            position = varying[0]
            encoded = arguments[position].dictionary_encode()
            return _over(arguments, position, encoded.dictionary).take(encoded.indices)
        rows = len(arguments[varying[0]])
        columns = [
            python_values(item, kind)
            if i in varying
            else python_values(spread(item, 1), kind) * rows
            for i, (item, kind) in enumerate(zip(arguments, types, strict=True))
        ]
        return computed(columns)

    def _over(arguments: Sequence[Datum], position: int, distinct: pa.Array) -> pa.Array:
        columns = [
            python_values(distinct if i == position else spread(item, len(distinct)), kind)
            for i, (item, kind) in enumerate(zip(arguments, types, strict=True))
        ]
        return computed(columns)

    def computed(columns: list[list[Any]]) -> pa.Array:
        return pack(
            _once_per_combination(function, columns, is_strict=is_strict, has_floats=has_floats),
            result,
        )

    return run


_REMEMBERED = 10_000
"""The largest number of results that a call of a kernel retains for reuse."""


def _once_per_combination(
    function: Callable[..., Any], columns: list[list[Any]], *, is_strict: bool, has_floats: bool
) -> list[Any]:
    """The result of each row, with one call of `function` for all rows of equal values."""
    known: dict[Any, Any] = {}
    values: list[Any] = []
    for row in zip(*columns, strict=True):
        if is_strict and None in row:
            values.append(None)
            continue
        # -0.0 and 0.0 are equal as keys, but their texts differ.
        is_reusable = not (has_floats and 0.0 in row)
        try:
            values.append(known[row])
            continue
        except (KeyError, TypeError):
            value = function(*row)
        values.append(value)
        if is_reusable and len(known) < _REMEMBERED:
            with suppress(TypeError):
                known[row] = value
    return values


def _can_encode(array: pa.Array, is_strict: bool) -> bool:
    """Whether the function can run over the dictionary of an array.

    Not if NULLs have to be passed to it, if the type has no dictionary, or for floats, of which the
    dictionary merges −0 and 0.
    """
    if not is_strict and array.null_count:
        return False
    return not pa.types.is_nested(array.type) and not pa.types.is_floating(array.type)
