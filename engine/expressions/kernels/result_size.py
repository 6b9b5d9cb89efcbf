"""How much memory the result of a call takes, known before it is made.

Few functions make more text than they are given, but those have no bound: REPEAT('x', 10000000)
over a batch is 650 GB. So the size of their results is estimated first, from above. Where all rows
together would take too much, TooManyRows goes to whoever evaluates over a frame, and that one
divides it (`evaluate.evaluate` and `processors.calc` do); what is too much for one value is
refused.
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
"""How many bytes one call makes for several rows at most."""
MOST_BYTES = 1_000_000_000
"""The most bytes of one value."""

_FIXED = 32
_NOTHING = pack_scalar(0, BIGINT)
_ZERO, _ONE = pack_scalar(0.0, DOUBLE), pack_scalar(1.0, DOUBLE)


class TooManyRows(DataError):
    """The result for all rows takes too much memory at a time; that for `fitting` rows (fewer, at
    least 1) doesn't."""

    def __init__(self, fitting: int, name: str, position: Position | None = None) -> None:
        super().__init__(
            f"{name} makes too much at a time",
            hint="let it make less, or read fewer rows",
            position=position,
        )
        self.fitting = fitting


def check_spread(datum: pa.Scalar, rows: int) -> None:
    """TooManyRows where a scalar repeated for so many rows takes too much."""
    if rows > 1:
        total = _octets(datum) * rows
        if total > AT_A_TIME:
            raise TooManyRows(fitting(rows, total), "a constant value for each row")


def check_call(name: str, values: list[Any], position: Position | None) -> None:
    """TooManyRows where the result of a function over these data takes too much; DataError where
    that of a single row does."""
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
            f"{name.upper()} would make a value of {total:,.0f} bytes",
            hint=f"the most is {MOST_BYTES:,}",
            position=position,
        )


def fitting(rows: int, total: float) -> int:
    return max(1, min(int(rows * AT_A_TIME / total), rows // 2))


def _octets(datum: Any) -> int:
    """The bytes of one value, or of those of an array."""
    if not isinstance(datum, pa.Scalar):
        return int(datum.nbytes)
    if isinstance(datum, (pa.StringScalar, pa.BinaryScalar)):
        buffer = datum.as_buffer() if datum.is_valid else None
        return 0 if buffer is None else int(buffer.size)
    return int(pa.repeat(datum, 1).nbytes) if pa.types.is_nested(datum.type) else _FIXED


def _all_octets(rows: int, datum: Any) -> int:
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
    """Numbers as floats (products may be beyond 64 bits), negative ones as 0."""
    return _floats(pc.max_element_wise(datum, _NOTHING, skip_nulls=False))


def _sum(datum: Any, rows: int) -> float:
    if isinstance(datum, pa.Scalar):
        return (datum.as_py() or 0.0) * rows
    return pc.sum(datum).as_py() or 0.0


def _repeat(rows: int, text: Any, count: Any) -> float:
    return _sum(pc.multiply(_floats(pc.binary_length(text)), _counts(count)), rows)


def _pad(rows: int, text: Any, length: Any, fill: Any = None) -> float:
    width = 1 if fill is None else min(_longest(fill), 4)
    return _all_octets(rows, text) + _sum(_counts(length), rows) * width


def _join(rows: int, *parts: Any) -> float:
    return sum(_all_octets(rows, part) for part in parts)


def _join_with(rows: int, separator: Any, *parts: Any) -> float:
    return _join(rows, *parts) + _all_octets(rows, separator) * max(len(parts) - 1, 0)


def _replace(rows: int, text: Any, old: Any, new: Any) -> float:
    given, longer = _all_octets(rows, text), _longest(new)
    bound = given * max(1, longer)
    if bound <= AT_A_TIME or not all(isinstance(item, pa.Scalar) for item in (old, new)):
        return bound
    sought = old.as_py()
    if not sought:
        return given
    found = _sum(pc.count_substring(text, sought), rows)
    return given + found * max(longer - _octets(old), 0)


def _regexp_replace(rows: int, text: Any, pattern: Any, new: Any, flags: Any = None) -> float:
    """Each place between two characters may be a match, and each \\1 in the replacement stands for
    a part of the text."""
    given, longer = _all_octets(rows, text), _longest(new)
    is_known = flags is None or isinstance(flags, pa.Scalar)
    if not is_known or (flags is not None and "g" in (flags.as_py() or "")):
        return (given + rows) * (1 + longer)
    return given * (1 + longer // 2) + rows * longer


def _fill(rows: int, value: Any, count: Any) -> float:
    each = _octets(value) if isinstance(value, pa.Scalar) else _octets(value) / rows
    return _sum(_counts(count), rows) * max(each, 1)


def _range(rows: int, *bounds: Any) -> float:
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
"""The functions whose result may be much larger than what they are given: the bytes of the result
for a number of rows, or something above that, by the data."""
_LIMITED = {"repeat", "lpad", "rpad", "space", "array_fill", "array_range", "array_series"}
"""Which refuse values that are too long themselves, before they make them."""
_STRICT = dict.fromkeys(
    ("repeat", "lpad", "rpad", "replace", "regexp_replace", "space", "array_range", "array_series"),
    4,
)
"""Of which functions a NULL among the arguments is NULL."""
