"""Arrow arrays that come from outside (registered data, pushed rows, results of Python functions):
do they hold what they say?

Arrow looks at nothing when an array is made of buffers. Offsets that go back, indexes beyond a
dictionary or text that isn't UTF-8 would end the process, or give other rows, where a kernel meets
them first. So each such array is checked once, where it comes in; what we made ourselves never is.
"""

from __future__ import annotations

import pyarrow as pa

from runnel.errors import DataError


def check_received(array: pa.Array | pa.ChunkedArray, what: str) -> None:
    """DataError, which names `what`, where an array breaks the rules of its Arrow type."""
    if _takes_any_bits(array.type):
        return
    try:
        array.validate(full=True)
    except (pa.ArrowException, IndexError) as error:
        raise DataError(
            f"{what} isn't sound Arrow data",
            detail=str(error),
            hint="its validate(full=True) says the same; correct it where it is made",
        ) from error


def _takes_any_bits(kind: pa.DataType) -> bool:
    """Whether each content of the buffers is some value: then there is nothing to look at."""
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
