"""Encodings of text files: the option 'encoding', byte order marks, and likely values for errors.

An encoding is never guessed in silence: a file is UTF-8, or begins with a mark of UTF-16 or UTF-32,
or the option names its encoding.
"""

from __future__ import annotations

import codecs

UTF_8 = "utf-8"
MARKED = ("utf-16", "utf-32")
"""Encodings whose files begin with a mark that has the order of the bytes."""

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32", "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32", "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16", "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16", "utf-16-be"),
)
"""A byte order mark, the encoding, and the encoding with its byte order; UTF-32 first, because its
mark begins with the one of UTF-16."""

_NAMES = {"iso8859-1": "latin-1", "cp1252": "windows-1252", "ascii": UTF_8, "utf-8-sig": UTF_8}
_PROBE = bytes(range(10, 14)) + bytes(range(32, 127))
"""Characters that must have the same bytes as in ASCII, so that a growing file can be cut at its
line feeds."""


def encoding_named(text: str) -> str:
    """The encoding of an option's text, in one spelling; ValueError if there is no such one."""
    try:
        info = codecs.lookup(text.strip().replace(" ", "-"))
        "a".encode(info.name)
    except (LookupError, UnicodeError, ValueError) as error:
        raise ValueError(text) from error
    if not info._is_text_encoding or info.name in ("idna", "punycode", "unicode_escape"):
        raise ValueError(text)
    return _NAMES.get(info.name, info.name)


def is_like_ascii(encoding: str) -> bool:
    """Whether ASCII characters have the same bytes in an encoding."""
    try:
        return _PROBE.decode(encoding).encode("ascii") == _PROBE
    except UnicodeError:
        return False


def marked_encoding(start: bytes) -> tuple[str, str, int] | None:
    """The encoding of a byte order mark, the one with its byte order, and the length of the mark.

    None without a mark of UTF-16 or UTF-32.
    """
    for mark, name, ordered in _MARKS:
        if start.startswith(mark):
            return name, ordered, len(mark)
    return None


def likely_encodings(data: bytes) -> tuple[str, ...]:
    """The encodings to try, most likely first, of text that is not UTF-8."""
    found = marked_encoding(data)
    if found is not None:
        return (found[0],)
    # Text of Latin letters has a zero in every second byte of UTF-16.
    even, odd = data[::2].count(0), data[1::2].count(0)
    if max(even, odd) * 4 > len(data) // 2:
        return ("utf-16-le", "utf-16-be") if odd > even else ("utf-16-be", "utf-16-le")
    # 0x80 to 0x9F are control characters in Latin-1, but quotes and dashes in windows-1252.
    if any(0x80 <= byte <= 0x9F for byte in data):
        return ("windows-1252", "cp850", "latin-1")
    return ("latin-1", "windows-1252")
