"""The formats of dates and timestamps: strptime's spelling as a pattern of TO_DATE."""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa

from runnel.errors import DataError
from runnel.expressions.to_char.parse_time import read

_FIELDS = {
    "d": "DD",
    "m": "MM",
    "Y": "YYYY",
    "y": "YY",
    "H": "HH24",
    "I": "HH12",
    "M": "MI",
    "S": "SS",
    "f": "US",
    "g": "MS",
    "p": "AM",
    "b": "Mon",
    "B": "Month",
    "a": "Dy",
    "A": "Day",
    "j": "DDD",
    "%": '"%"',
}
"""The fields of strptime, as TO_DATE spells them."""
_TOKENS = re.compile(r"%-?(.)|([^%]+)|%$", re.DOTALL)


@lru_cache(maxsize=256)
def pattern_of(format_text: str) -> str:
    """The pattern of TO_DATE for a format; DataError for a field that can't be read."""
    if "%" in format_text:
        pattern = "".join(map(_pattern_token, _TOKENS.finditer(format_text)))
    else:
        pattern = format_text
    # Only the pattern is checked: no text is read.
    read(pa.array([], pa.string()), pattern)
    return pattern


def _pattern_token(token: re.Match[str]) -> str:
    field, plain = token.groups()
    if field is None:
        if plain is None:
            raise DataError("a format ends with %")
        return re.sub(r"([A-Za-z]+)", r'"\1"', plain)
    found = _FIELDS.get(field)
    if found is None:
        raise DataError(f"a date can't be read by %{field}")
    return found
