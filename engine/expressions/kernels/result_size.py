"""Estimates of the memory that the result of a call needs, before the result is computed.

Few functions return more text than they are passed, but those functions have no bound: REPEAT('x',
10000000) over a batch needs 650 GB. So an upper bound of the size of their results is computed
first. If the result for all rows together would be too large, TooManyRows is raised, and the caller
that evaluates over the rows splits them (`evaluate.evaluate` and `processors.calc` do). A single
value that is too large is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import DataError, Position
from runnel.expressions.kernels.buffers import pack_scalar
from runnel.sqltypes import BIGINT, DOUBLE

AT_A_TIME = 1 << 25
"""The largest size of the result of one call for several rows, in bytes."""
MOST_BYTES = 1_000_000_000
"""The largest size of one value, in bytes."""

_FIXED = 32
"""An upper bound of the size of a value that is neither text nor nested, in bytes."""
_NOTHING = pack_scalar(0, BIGINT)
_ZERO, _ONE = pack_scalar(0.0, DOUBLE), pack_scalar(1.0, DOUBLE)


class TooManyRows(DataError):
    """The result for all rows needs too much memory at a time.

    fitting: a number of rows (at least 1, and fewer than there are) whose result isn't too large.
    """

    def __init__(self, fitting: int, name: str, position: Position | None = None) -> None:
        super().__init__(
            f"{name} returns too much data at a time",
            hint="reduce the size of its result, or read fewer rows",
            position=position,
        )
        self.fitting = fitting


def check_spread(datum: pa.Scalar, rows: int) -> None:
    """Raises TooManyRows if a scalar repeated for `rows` rows is too large."""
    if rows > 1:
        total = _octets(datum) * rows
        if total > AT_A_TIME:
            raise TooManyRows(fitting(rows, total), "a constant value for each row")


def check_call(name: str, values: list[Any], position: Position | None) -> None:
    """Raises TooManyRows if the result of a function over these data is too large; DataError if the
    result of a single row is.
    """
    rows = next((len(item) for item in values if not isinstance(item, pa.Scalar)), 1)
    if not rows or any(
        isinstance(item, pa.Scalar) and not item.is_valid for item in values[: _STRICT.get(name, 0)]
    ):
        return
    total = SIZES[name](rows, *values)
    if total <= AT_A_TIME:
        return
    if rows > 1:
        raise TooManyRows(fitting(rows, total), name.upper(), position)
    if total > MOST_BYTES and name not in _LIMITED:
        raise DataError(
            f"{name.upper()} would return a value of {total:,.0f} bytes",
            hint=f"the maximum is {MOST_BYTES:,}",
            position=position,
        )


def fitting(rows: int, total: float) -> int:
    """A number of rows whose result fits, if the result of `rows` rows has `total` bytes; at most
    half of them.
    """
    return max(1, min(int(rows * AT_A_TIME / total), rows // 2))


def _octets(datum: Any) -> int:
    """The bytes of one scalar, or of all values of an array."""
    if not isinstance(datum, pa.Scalar):
        return int(datum.nbytes)
    if isinstance(datum, (pa.StringScalar, pa.BinaryScalar)):
        buffer = datum.as_buffer() if datum.is_valid else None
        return 0 if buffer is None else int(buffer.size)
    return int(pa.repeat(datum, 1).nbytes) if pa.types.is_nested(datum.type) else _FIXED


def _all_octets(rows: int, datum: Any) -> int:
    """The bytes of a datum for all rows."""
    return _octets(datum) * rows if isinstance(datum, pa.Scalar) else _octets(datum)


def _longest(datum: Any) -> int:
    """The bytes of the longest text."""
    return (
        _octets(datum)
        if isinstance(datum, pa.Scalar)
        else pc.max(pc.binary_length(datum)).as_py() or 0
    )


def _floats(datum: Any) -> Any:
    return pc.cast(datum, pa.float64(), safe=False)


def _counts(datum: Any) -> Any:
    """Numbers as floats (products may exceed 64 bits), negative ones as 0."""
    return _floats(pc.max_element_wise(datum, _NOTHING, skip_nulls=False))


def _sum(datum: Any, rows: int) -> float:
    """The total over all rows."""
    if isinstance(datum, pa.Scalar):
        return (datum.as_py() or 0.0) * rows
    return pc.sum(datum).as_py() or 0.0


def _repeat(rows: int, text: Any, count: Any) -> float:
    return _sum(pc.multiply(_floats(pc.binary_length(text)), _counts(count)), rows)


def _pad(rows: int, text: Any, length: Any, fill: Any = None) -> float:
    width = 1 if fill is None else min(_longest(fill), 4)
    return _all_octets(rows, text) + _sum(_counts(length), rows) * width


def _join(rows: int, *texts: Any) -> float:
    return sum(_all_octets(rows, text) for text in texts)


def _join_with(rows: int, separator: Any, *texts: Any) -> float:
    return _join(rows, *texts) + _all_octets(rows, separator) * max(len(texts) - 1, 0)


def _replace(rows: int, text: Any, old: Any, new: Any) -> float:
    """For large texts and scalar arguments the matches are counted; else each byte counts as a
    match.
    """
    size, longer = _all_octets(rows, text), _longest(new)
    bound = size * max(1, longer)
    if bound <= AT_A_TIME or not all(isinstance(item, pa.Scalar) for item in (old, new)):
        return bound
    needle = old.as_py()
    if not needle:
        return size
    found = _sum(pc.count_substring(text, needle), rows)
    return size + found * max(longer - _octets(old), 0)


def _regexp_replace(rows: int, text: Any, pattern: Any, new: Any, flags: Any = None) -> float:
    r"""Each position between two characters may be a match, and each \1 in the replacement stands
    for a substring of the text.
    """
    size, longer = _all_octets(rows, text), _longest(new)
    is_known = flags is None or isinstance(flags, pa.Scalar)
    if not is_known or (flags is not None and "g" in (flags.as_py() or "")):
        return (size + rows) * (1 + longer)
    return size * (1 + longer // 2) + rows * longer


def _fill(rows: int, value: Any, count: Any) -> float:
    """The bytes of ARRAY_FILL: the number of elements times the size of the (average) element."""
    each = _octets(value) if isinstance(value, pa.Scalar) else _octets(value) / rows
    return _sum(_counts(count), rows) * max(each, 1)


def _range(rows: int, *bounds: Any) -> float:
    """The bytes of RANGE and of ARRAY_SERIES: the number of steps, of 8 bytes each."""
    low, high = (_ZERO, bounds[0]) if len(bounds) == 1 else bounds[:2]
    span = pc.subtract(_floats(high), _floats(low))
    step = _floats(bounds[2]) if len(bounds) == 3 else _ONE
    each = pc.divide(span, pc.if_else(pc.equal(step, _ZERO), _ONE, step))
    return _sum(pc.max_element_wise(each, _ZERO, skip_nulls=False), rows) * 8


SIZES: dict[str, Callable[..., float]] = {
    "repeat": _repeat,
    "space": lambda rows, count: _sum(_counts(count), rows),
    "lpad": _pad,
    "rpad": _pad,
    "concat": _join,
    "concat_all": _join,
    "concat_ws": _join_with,
    "replace": _replace,
    "regexp_replace": _regexp_replace,
    "array_fill": _fill,
    "array_range": _range,
    "array_series": _range,
}
"""The functions whose result may be much larger than their arguments, with the size of the result
in bytes for a number of rows and the arguments, or an upper bound of it.
"""
_LIMITED = {"repeat", "lpad", "rpad", "space", "array_fill", "array_range", "array_series"}
"""The functions among these that refuse values which are too long themselves, before they compute
them.
"""
_STRICT = dict.fromkeys(
    ("repeat", "lpad", "rpad", "replace", "regexp_replace", "space", "array_range", "array_series"),
    4,
)
"""The functions for which a NULL among the first 4 arguments makes the result NULL."""
