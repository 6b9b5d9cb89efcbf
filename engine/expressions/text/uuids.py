"""UUIDs, which are stored as text in canonical form (lower case, 8-4-4-4-12).

The text sorts like the 16 bytes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import from_numbers, validity
from runnel.expressions.casts.numbers import any_true
from runnel.expressions.function import Datum
from runnel.expressions.kernels.buffers import pack_scalar
from runnel.sqltypes import VARCHAR

WIDTH = 16
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_DIGIT_POSITIONS = np.array([i for i in range(36) if i not in (8, 13, 18, 23)])
"""The positions of the 32 digits in the canonical text."""
_ACCEPTED = (
    r"^(?:[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}|\{[0-9a-f]{8}-?(?:[0-9a-f]{4}-?)"
    r"{3}[0-9a-f]{12}\})$"
)
_CANONICAL = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_PARTS = r"^\{?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})\}?$"
_JOINED = r"\1-\2-\3-\4-\5"


def parse(text: Datum) -> Datum:
    """Text in any usual form (upper case, in braces, without hyphens) in canonical form;
    ArrowInvalid for any other text.
    """
    if not any_true(pc.invert(pc.match_substring_regex(text, _CANONICAL))):
        return text
    lower = pc.ascii_lower(pc.utf8_trim_whitespace(text))
    if any_true(pc.invert(pc.match_substring_regex(lower, _ACCEPTED))):
        raise pa.ArrowInvalid("not a UUID")
    return pc.replace_substring_regex(lower, _PARTS, _JOINED)


# For the bytes 0x1f, 0x20, … of one row:
#     octets >> 4  [1, 2, …]    the high digits, which go to even columns of `digits`
#     octets & 15  [15, 0, …]   the low digits, which go to odd columns
#     digits       b"1f20…"     32 characters, which go to `texts` between the hyphens
def text_of(
    octets: np.ndarray[tuple[int, int], np.dtype[np.uint8]], valid: np.ndarray | None = None
) -> pa.Array:
    """The canonical texts of rows of 16 bytes."""
    rows = len(octets)
    texts = np.full((rows, 36), ord("-"), np.uint8)
    digits = np.empty((rows, 32), np.uint8)
    digits[:, 0::2] = _DIGITS[octets >> 4]
    digits[:, 1::2] = _DIGITS[octets & 15]
    texts[:, _DIGIT_POSITIONS] = digits
    offsets = np.arange(0, 36 * (rows + 1), 36, dtype=np.int32)
    array = pa.Array.from_buffers(
        pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(texts)]
    )
    if valid is None:
        return array
    return pc.if_else(
        pa.Array.from_buffers(
            pa.bool_(), rows, [None, pa.py_buffer(np.packbits(valid, bitorder="little"))]
        ),
        array,
        pa.nulls(1, pa.string())[0],
    )


def from_storage(array: pa.Array) -> pa.Array:
    """An Arrow uuid array, or an array of 16 bytes each, as text."""
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    data = storage.buffers()[1]
    if data is None or not len(storage):
        return pa.nulls(len(storage), pa.string())
    octets = np.frombuffer(data, np.uint8, WIDTH * len(storage), WIDTH * storage.offset).reshape(
        -1, WIDTH
    )
    return text_of(octets, validity(storage))


# The inverse of `text_of`:
#     values  b"1f20…-…"       36 characters for each row
#     digits  [1, 15, 2, 0, …]  the 32 hexadecimal digits as numbers
#     octets  [0x1f, 0x20, …]  pairs of digits
def to_storage(array: pa.Array) -> pa.Array:
    """Canonical texts as an Arrow uuid array."""
    filled = pc.coalesce(array, _ZEROS) if array.null_count else array
    rows = len(filled)
    values = np.zeros((rows, 36), np.uint8)
    if rows:
        begin = np.frombuffer(filled.buffers()[1], np.int32, 1, 4 * filled.offset)[0]
        values = np.frombuffer(filled.buffers()[2], np.uint8, 36 * rows, int(begin)).reshape(
            rows, 36
        )
    digits = values[:, _DIGIT_POSITIONS]
    digits = np.where(digits >= ord("a"), digits - (ord("a") - 10), digits - ord("0")).astype(
        np.uint8
    )
    octets = np.ascontiguousarray(digits[:, 0::2] << 4 | digits[:, 1::2])
    bitmap = from_numbers(np.zeros(rows, np.int8), pa.int8(), validity(array)).buffers()[0]
    storage = pa.Array.from_buffers(pa.binary(WIDTH), rows, [bitmap, pa.py_buffer(octets)])
    return pa.ExtensionArray.from_storage(pa.uuid(), storage)


_ZEROS = pack_scalar("00000000-0000-0000-0000-000000000000", VARCHAR)
