"""Validation of Arrow arrays that come from outside: registered data, pushed rows, results of
Python functions.

Arrow checks nothing when an array is built from buffers. With descending offsets, indexes beyond
the dictionary or text that isn't UTF-8, the first kernel to read the array would crash the process
or return wrong rows. So each array from outside is checked once, on entry. Arrays that Runnel
builds itself are not checked.
"""

from __future__ import annotations

import pyarrow as pa

from runnel.errors import DataError


def check_received(array: pa.Array | pa.ChunkedArray, what: str) -> None:
    """Raises DataError if an array breaks the rules of its Arrow type; `what` names the array in
    the error.
    """
    if _accepts_any_bits(array.type):
        return
    try:
        array.validate(full=True)
    except (pa.ArrowException, IndexError) as error:
        raise DataError(
            f"{what} isn't sound Arrow data",
            detail=str(error),
            hint="its validate(full=True) fails in the same way; correct it where it is created",
        ) from error


def _accepts_any_bits(kind: pa.DataType) -> bool:
    """Whether every content of the buffers is a value, so that there is nothing to check."""
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
        or types.is_duration(kind)
        or types.is_null(kind)
    )
