"""The text of an error around a position: an excerpt of its line, with marks below it."""

from __future__ import annotations

_LONGEST_TEXT = 1000
"""Maximum number of characters shown of a message, a detail or a hint, which may quote a value of
any length."""

_WIDEST_EXCERPT = 160
"""Maximum number of characters shown of a line of SQL, around the position."""

_BEFORE_POSITION = 60
"""Number of characters shown before a position that is far to the right."""


def shortened_text(text: str) -> str:
    """The beginning and the end of a text that is too long to be shown."""
    if len(text) <= _LONGEST_TEXT:
        return text
    half = _LONGEST_TEXT // 2
    return f"{text[:half]} … {text[-half:]}"


def excerpt(line: str, number: int, column: int, length: int) -> tuple[str, str]:
    """The line with its number, and the line of marks below it.

    column: number of the first marked character, from 1.
    length: number of marked characters.
    """
    line = "".join(
        character if character.isprintable() or "\ud800" <= character <= "\udfff" else " "
        for character in line
    )
    line = line.rstrip()
    label, start = f"LINE {number}: ", column - 1
    if len(line) > _WIDEST_EXCERPT:
        first = max(0, start - _BEFORE_POSITION)
        last = first + _WIDEST_EXCERPT
        opening, closing = "… " if first else "", " …" if last < len(line) else ""
        line = opening + line[first:last] + closing
        room = len(line) - len(closing) - (start := start - first + len(opening))
    else:
        room = len(line) - start
    marked = max(1, min(length, room))
    before, below = line[:start], line[start : start + marked]
    marks = "^" * max(1, marked + _extra_width(below))
    return f"{label}{line}", " " * (len(label) + start + _extra_width(before)) + marks


def _extra_width(text: str) -> int:
    """The number of columns that a text occupies on a terminal beyond its number of characters:
    one more for each wide character, one less for each that combines with the one before it."""
    if text.isascii():
        return 0
    from unicodedata import combining, east_asian_width

    wide = sum(east_asian_width(character) in "WF" for character in text)
    return wide - sum(combining(character) > 0 for character in text)
