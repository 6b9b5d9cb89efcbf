"""The generated values of a column, as Arrow arrays of many rows at a time.

A value follows from the number of its row, the seed and the path of its column alone, so that
batches of any size and restarts agree on every row. Columns of dates and times follow from the time
at which the row is due.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import Indexes, Mask, from_flags, from_numbers
from runnel.connectors.nexmark.random_numbers import Draws, draws
from runnel.sqltypes import Kind, SqlType, to_arrow

_DAY = 86_400_000_000
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_WIDTHS = {
    Kind.TINYINT: np.int8,
    Kind.SMALLINT: np.int16,
    Kind.INTEGER: np.int32,
    Kind.BIGINT: np.int64,
}


@frozen
class GeneratedRows:
    """GeneratedRows to generate.

    numbers: their numbers, from 0.
    times: the times at which they are due, in µs since 1970.
    seed: the seed of all random numbers.
    """

    numbers: Indexes
    times: Indexes
    seed: int

    def draw(self, path: str) -> Draws:
        """64 random bits for each row; other paths return other bits."""
        return draws(self.numbers, self.seed, crc32(path.lower().encode()))

    def repeated(self, count: int) -> GeneratedRows:
        """`count` rows in the place of each row."""
        # Example: the numbers [4, 5] with the count 3 become [12, 13, 14, 15, 16, 17].
        parts = (self.numbers[:, None] * count + np.arange(count)).ravel()
        return GeneratedRows(parts, np.repeat(self.times, count), self.seed)


Maker = Callable[[GeneratedRows], pa.Array]
"""Makes the values of a column."""


def sequence(sql_type: SqlType, start: int) -> Maker:
    """The numbers from `start` on, one for each row."""

    def make(rows: GeneratedRows) -> pa.Array:
        values = rows.numbers + start
        if sql_type.kind is Kind.VARCHAR:
            return from_numbers(values, pa.int64()).cast(pa.string())
        if sql_type.is_approximate:
            return _floats(values.astype(np.float64), sql_type)
        return whole(values * 10**sql_type.scale, sql_type)

    return make


def whole(values: Indexes, sql_type: SqlType) -> pa.Array:
    """A column of integers, or of a DECIMAL from its digits."""
    if sql_type.kind is not Kind.DECIMAL:
        return from_numbers(values.astype(_WIDTHS[sql_type.kind]), to_arrow(sql_type))
    # The low word of 128 bits, and the high word, which repeats the sign.
    words = np.stack((values, values >> 63), axis=1)
    return from_numbers(words, to_arrow(sql_type))


def _floats(values: object, sql_type: SqlType) -> pa.Array:
    width = np.float32 if sql_type.kind is Kind.REAL else np.float64
    return from_numbers(np.asarray(values).astype(width), to_arrow(sql_type))


def random_whole(path: str, sql_type: SqlType, low: int, high: int) -> Maker:
    """Whole numbers (the digits of a DECIMAL) from `low` to `high`."""

    def make(rows: GeneratedRows) -> pa.Array:
        picked = rows.draw(path)
        if high - low < (1 << 64) - 1:
            picked = picked % np.uint64(high - low + 1)
        # Two's complement: the sum wraps to the number between the bounds.
        return whole((picked + np.uint64(low & ((1 << 64) - 1))).view(np.int64), sql_type)

    return make


def random_floats(path: str, sql_type: SqlType, low: float, high: float) -> Maker:
    """Numbers from `low` to below `high`."""

    def make(rows: GeneratedRows) -> pa.Array:
        share = (rows.draw(path) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return _floats(low * (1.0 - share) + high * share, sql_type)

    return make


def random_flags(path: str) -> Maker:
    """true and false, equally often."""
    return lambda rows: from_flags((rows.draw(path) >> np.uint64(63)).astype(np.bool_))


def random_texts(path: str, sql_type: SqlType, length: int, *, varies: bool) -> Maker:
    """Texts of hexadecimal digits, or bytes; with `varies` from one to `length` of them."""
    is_text = sql_type.kind is Kind.VARCHAR
    per_word = 16 if is_text else 8

    def make(rows: GeneratedRows) -> pa.Array:
        words = -(-length // per_word)
        count = len(rows.numbers)
        content = rows.repeated(words).draw(path).view(np.uint8)
        if is_text:
            # A byte is two digits: its high half, then its low half.
            content = _DIGITS[np.stack((content >> 4, content & 15), axis=1)]
        content = content.reshape(count, words * per_word)[:, :length]
        lengths = np.full(count, length, np.int32)
        if varies and length:
            lengths = (1 + rows.draw(path + ".length") % np.uint64(length)).astype(np.int32)
            content = content[np.arange(length) < lengths[:, None]]
        offsets = np.zeros(count + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(content))]
        return pa.Array.from_buffers(to_arrow(sql_type), count, buffers)

    return make


def times(path: str, sql_type: SqlType, past: int) -> Maker:
    """The time at which a row is due, earlier by up to `past` µs."""

    def make(rows: GeneratedRows) -> pa.Array:
        found = rows.times
        if past:
            found = found - (rows.draw(path) % np.uint64(past + 1)).view(np.int64)
        if sql_type.kind is Kind.DATE:
            return from_numbers((found // _DAY).astype(np.int32), to_arrow(sql_type))
        if sql_type.kind is Kind.TIME:
            found = found % _DAY
        return from_numbers(found, to_arrow(sql_type))

    return make


def arrays(sql_type: SqlType, length: int, item: Maker) -> Maker:
    """Arrays of `length` items."""

    def make(rows: GeneratedRows) -> pa.Array:
        offsets = np.arange(len(rows.numbers) + 1, dtype=np.int32) * length
        items = item(rows.repeated(length))
        return pa.ListArray.from_arrays(
            from_numbers(offsets, pa.int32()), items, type=to_arrow(sql_type)
        )

    return make


def structs(sql_type: SqlType, fields: Sequence[Maker]) -> Maker:
    """ROWs of the fields."""
    arrow = list(to_arrow(sql_type))
    return lambda rows: pa.StructArray.from_arrays([make(rows) for make in fields], fields=arrow)


def with_nulls(path: str, rate: float, make: Maker) -> Maker:
    """A share of NULLs among the values."""

    def made(rows: GeneratedRows) -> pa.Array:
        share = (rows.draw(path + ".null") >> np.uint64(11)).astype(np.float64) * 2.0**-53
        valid: Mask = share >= rate
        positions = np.arange(len(valid))
        return make(rows).take(from_numbers(positions, pa.int64(), valid))

    return made
