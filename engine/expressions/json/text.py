"""JSON text: parsing it to Python values without loss, and writing it compactly.

Numbers with a point or an exponent become Decimals, so that their digits are preserved. If a name
occurs twice in an object, its last value counts. NaN and infinities, which Python's parser accepts,
are not JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import DataError
from runnel.expressions.casts.numbers import any_true
from runnel.expressions.kernels.buffers import pack, pack_scalar
from runnel.expressions.kernels.python_values import python_values
from runnel.sqltypes import VARCHAR

INVALID = "not JSON"
_LONGEST_NUMBER = 4000
"""The number of digits from which an integer becomes a Decimal, as Python limits the conversion to
int.
"""


def _constant(word: str) -> Any:
    raise ValueError(word)


def _integer(digits: str) -> Any:
    return int(digits) if len(digits) < _LONGEST_NUMBER else Decimal(digits)


_decode: Callable[[str], Any] = json.JSONDecoder(
    parse_int=_integer, parse_float=Decimal, parse_constant=_constant
).decode
_quote: Callable[[str], str] = json.JSONEncoder(ensure_ascii=False).encode


def parse(text: str) -> Any:
    """The value of a JSON text; DataError if it isn't JSON."""
    try:
        return _decode(text)
    except (ValueError, RecursionError, ArithmeticError):
        raise DataError(INVALID, hint="JSON has names and texts in double quotes") from None


def is_json(text: str) -> bool:
    try:
        parse(text)
    except DataError:
        return False
    return True


def write(value: Any) -> str:
    """The text of a value that `parse` returned."""
    if isinstance(value, str):
        return _quote(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return (
            "{" + ",".join([f"{_quote(name)}:{write(item)}" for name, item in value.items()]) + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join([write(item) for item in value]) + "]"
    return str(value)


def checked(texts: pa.Array) -> pa.Array:
    """The texts unchanged; DataError if one isn't JSON."""
    known = set()
    for text in python_values(texts, VARCHAR):
        if text is not None and text not in known:
            parse(text)
            known.add(text)
    return texts


def quoted(texts: pa.Array) -> pa.Array:
    """Texts as JSON strings."""
    if any_true(pc.match_substring_regex(texts, r'["\\\x00-\x1f]')):
        encoded = texts.dictionary_encode()
        written = [
            None if text is None else _quote(text) for text in encoded.dictionary.to_pylist()
        ]
        return pack(written, VARCHAR).take(encoded.indices)
    return pc.binary_join_element_wise(_MARK, texts, _MARK, _NOTHING)


_MARK, _NOTHING = pack_scalar('"', VARCHAR), pack_scalar("", VARCHAR)
