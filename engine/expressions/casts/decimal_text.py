"""Text as DECIMAL, rounded half up.

Arrow's cast is fast, but multiplies the digits by 10^scale in 128 bits and does not notice every
overflow. So it is given only text for which the product fits.
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
_WITH_EXPONENT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+")


def text_to_decimal(text: Datum, arrow: pa.DataType) -> Datum:
    """Text without spaces around it; ArrowInvalid where it isn't a number or has too many
    digits."""
    if has_exponent(text):
        text = over_first(lambda array: _without_exponents(array, arrow.scale))(text)
    with suppress(pa.ArrowInvalid):
        return _exact(text, arrow)
    too_many = rf"^[+-]?0*[1-9][0-9]{{{arrow.precision - arrow.scale}}}"
    if pc.any(pc.match_substring_regex(text, too_many)).as_py():
        raise pa.ArrowInvalid("too many digits")
    # One digit more than the scale decides how it is rounded: 39 digits at most.
    places = arrow.scale + 1
    shortened = pc.replace_substring_regex(
        text, rf"^([+-]?[0-9]*\.[0-9]{{{places}}})[0-9]+$", r"\1"
    )
    return to_scale(pc.cast(shortened, pa.decimal256(_WIDE, places)), arrow)


def exact_decimals(text: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Plain digits that the type holds without rounding; ArrowInvalid for any other text, also for
    what `text_to_decimal` reads."""
    if has_exponent(text):
        raise pa.ArrowInvalid("an exponent")
    return _exact(text, arrow)


def _exact(text: Datum, arrow: pa.DataType) -> Datum:
    """Text without exponents by Arrow's cast, which is given nothing that overflows: n characters
    are a number below 10^n, so that n and the scale may be 38 together in 128 bits, 76 in 256."""
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
    """Whether an e is anywhere in the text. Its bytes are searched, which takes a hundredth of the
    cast's time."""
    octets = (text.as_py() or "").encode() if isinstance(text, pa.Scalar) else _octets(text)
    return b"e" in octets or b"E" in octets


def _octets(text: pa.Array) -> bytes:
    """The bytes of all values of a column, one after the other."""
    _, offsets, data = text.buffers()
    if not len(text) or data is None:
        return b""
    ends = np.frombuffer(offsets, np.int32, len(text) + 1, 4 * text.offset)
    first, last = int(ends[0]), int(ends[-1])
    octets: bytes = data.slice(first, last - first).to_pybytes()
    return octets


def _without_exponents(texts: pa.Array, scale: int) -> pa.Array:
    """Numbers written out, once per distinct text: what Arrow reads with an exponent must come out
    exact."""
    encoded = texts.dictionary_encode()
    written = [_written_out(text, scale) for text in encoded.dictionary.to_pylist()]
    return pack(written, VARCHAR).take(encoded.indices)


def _written_out(text: str, scale: int) -> str:
    """A number with an exponent as plain digits; any other text as it is."""
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
