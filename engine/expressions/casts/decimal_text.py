"""Text as DECIMAL, rounded half up.

Arrow's cast is fast, but it multiplies the digits by 10^scale in 128 bits and misses some
overflows. So it only gets texts whose product fits.
"""

from __future__ import annotations

import re
from contextlib import suppress
from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.expressions.function import Datum, over_first
from runnel.expressions.kernels.buffers import pack
from runnel.expressions.numbers.decimals import to_scale
from runnel.sqltypes import MAX_PRECISION, VARCHAR

_WIDE = 2 * MAX_PRECISION
"""The precision of the intermediate decimal256 type."""
_WITH_EXPONENT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+")


def text_to_decimal(text: Datum, arrow: pa.DataType) -> Datum:
    """Text without surrounding spaces as a decimal; ArrowInvalid if it isn't a number or has too
    many digits.
    """
    if has_exponent(text):
        text = over_first(lambda array: _without_exponents(array, arrow.scale))(text)
    with suppress(pa.ArrowInvalid):
        return _exact(text, arrow)
    too_many = rf"^[+-]?0*[1-9][0-9]{{{arrow.precision - arrow.scale}}}"
    if pc.any(pc.match_substring_regex(text, too_many)).as_py():
        raise pa.ArrowInvalid("too many digits")
    # The first digit after the scale decides how the number is rounded. The digits after that one
    # are cut off, which leaves at most 39 digits.
    places = arrow.scale + 1
    shortened = pc.replace_substring_regex(
        text, rf"^([+-]?[0-9]*\.[0-9]{{{places}}})[0-9]+$", r"\1"
    )
    return to_scale(pc.cast(shortened, pa.decimal256(_WIDE, places)), arrow)


def exact_decimals(text: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Plain digits that the type holds without rounding.

    Any other text is an ArrowInvalid, including numbers that `text_to_decimal` accepts.
    """
    if has_exponent(text):
        raise pa.ArrowInvalid("an exponent")
    return _exact(text, arrow)


def _exact(text: Datum, arrow: pa.DataType) -> Datum:
    """Text without exponents, by Arrow's cast, only where it can't overflow.

    n characters are a number below 10^n. So n and the scale may be 38 together in 128 bits, and 76
    in 256 bits.
    """
    longest = (
        pc.max(pc.binary_length(text)).as_py()
        if isinstance(text, pa.Array)
        else len(text.as_py() or "")
    )
    if (longest or 0) + arrow.scale <= MAX_PRECISION:
        return pc.cast(text, arrow)
    if longest + arrow.scale <= _WIDE:
        return pc.cast(pc.cast(text, pa.decimal256(_WIDE, arrow.scale)), arrow)
    raise pa.ArrowInvalid("a long text")


def has_exponent(text: Datum) -> bool:
    """Whether any text contains an e. The search over the bytes needs a hundredth of the cast's
    time.
    """
    octets = (text.as_py() or "").encode() if isinstance(text, pa.Scalar) else _octets(text)
    return b"e" in octets or b"E" in octets


def _octets(text: pa.Array) -> bytes:
    """The bytes of all values of a column, concatenated."""
    _, offsets, data = text.buffers()
    if not len(text) or data is None:
        return b""
    ends = np.frombuffer(offsets, np.int32, len(text) + 1, 4 * text.offset)
    first, last = int(ends[0]), int(ends[-1])
    octets: bytes = data.slice(first, last - first).to_pybytes()
    return octets


def _without_exponents(texts: pa.Array, scale: int) -> pa.Array:
    """The numbers as plain digits, converted once per distinct text, as Arrow's own reading of
    exponents isn't exact.
    """
    encoded = texts.dictionary_encode()
    written = [_written_out(text, scale) for text in encoded.dictionary.to_pylist()]
    return pack(written, VARCHAR).take(encoded.indices)


def _written_out(text: str, scale: int) -> str:
    """A number with an exponent as plain digits; any other text unchanged."""
    if _WITH_EXPONENT.fullmatch(text) is None:
        if "e" in text.lower():
            raise pa.ArrowInvalid("not a number")
        return text
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise pa.ArrowInvalid("the exponent is out of range") from None
    if number.adjusted() >= MAX_PRECISION and number:
        raise pa.ArrowInvalid("too many digits")
    if number.adjusted() < -scale - 1 or not number:
        return "0"
    return f"{number:f}"
