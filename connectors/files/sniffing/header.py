"""Decides whether the first row of a CSV file has the names of the columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from runnel.connectors.files.inference import type_of_text, united_type
from runnel.sqltypes import NULL, VARCHAR, SqlType

MOST_ROWS = 1_000
"""How many rows are compared with the first one."""

_MISSING = frozenset({"", "-", "?", "n/a", "na", "nan", "nil", "none", "null", "\\n", "#n/a"})
"""Texts that often stand for a missing value: they fit no type, and are no names either."""
_YEAR = re.compile(r"(19|20)[0-9]{2}")


@dataclass(frozen=True, slots=True)
class Header:
    """The decision.

    exists: whether the first row is a header.
    is_assumed: whether nothing in the file confirms it, because all of its values are text.
    """

    exists: bool
    is_assumed: bool = False


def found_header(
    rows: Sequence[Sequence[str]], declared: Sequence[tuple[str, SqlType]] = ()
) -> Header:
    """Whether the first of the rows is a header.

    `declared` has the names and types of the columns that the statement declares. A first row with
    one of these names is a header; without columns, the types and shapes of the values decide.
    """
    if not rows or not any(cell.strip() for cell in rows[0]):
        return Header(True, is_assumed=True)
    first, body = rows[0], [row for row in rows[1 : MOST_ROWS + 1] if row]
    if declared:
        names = {name.lower() for name, _ in declared}
        if any(cell.strip().lower() in names for cell in first):
            return Header(True)
        fits = _fits(first, [kind for _, kind in declared])
        return Header(not fits, is_assumed=fits is None)
    if not body:
        return Header(not any(map(_is_typed, first)), is_assumed=not any(map(_is_typed, first)))
    columns = [
        (cell.strip(), [row[i] for row in body if i < len(row)]) for i, cell in enumerate(first)
    ]
    by_type = [_by_type(cell, values) for cell, values in columns]
    if True in by_type:
        return Header(True)
    if False in by_type:
        return Header(False)
    by_shape = [_by_shape(cell, values) for cell, values in columns]
    if len(first) > 1 and list(first) in [list(row) for row in body]:
        # Files that were put together may repeat the header.
        return Header(True, is_assumed=True)
    if True in by_shape:
        return Header(True)
    is_repeated = len({cell for cell, _ in columns}) < len(columns)
    if False in by_shape or is_repeated:
        return Header(False)
    return Header(True, is_assumed=True)


def _type_of(texts: Sequence[str]) -> SqlType:
    return type_of_text(pa.array(texts, pa.string()))


def _is_typed(cell: str) -> bool:
    return _type_of([cell]) not in (VARCHAR, NULL)


def _fits(first: Sequence[str], kinds: Sequence[SqlType]) -> bool | None:
    """Whether the values of the first row fit declared types; None if all of these are text."""
    pairs = [
        (cell, kind)
        for cell, kind in zip(first, kinds, strict=False)
        if kind != VARCHAR and cell.strip().lower() not in _MISSING
    ]
    if not pairs:
        return None
    return all(_can_be(cell, kind) for cell, kind in pairs)


def _can_be(cell: str, kind: SqlType) -> bool:
    # Loaded here: the converters use the module of formats.
    from runnel.connectors.files.conversion import converter
    from runnel.errors import DataError

    convert = converter(VARCHAR, kind)
    if convert is None or kind.is_nested:
        return True
    if kind.is_temporal and _TIME_DIGITS.search(cell):
        return True
    try:
        convert(pa.array([cell], pa.string()))
    except (pa.ArrowException, DataError):
        return False
    return True


_TIME_DIGITS = re.compile(r"[0-9]{1,4}[./:-][0-9]{1,2}")


def _by_type(cell: str, values: Sequence[str]) -> bool | None:
    """True if the cell doesn't fit the type of the values below it, False if it does; None if the
    values are text or missing."""
    present = [value for value in values if value.strip().lower() not in _MISSING]
    if not present or cell.lower() in _MISSING:
        return None
    body = _type_of(present)
    if body in (VARCHAR, NULL):
        return None
    if _YEAR.fullmatch(cell) and not any(map(_YEAR.fullmatch, present)):
        return None  # a year may be the name of a column
    return united_type(body, _type_of([cell])) == VARCHAR


def _by_shape(cell: str, values: Sequence[str]) -> bool | None:
    """False if the cell looks like the values below it, True if it evidently does not; None if that
    decides nothing."""
    present = [value.strip() for value in values if value.strip()]
    if not present:
        return None
    if not cell:
        return False
    if cell in present:
        return False
    shapes = {_shape(value) for value in present}
    if len(shapes) > 1 or len(present) < 2:
        return None
    shape = shapes.pop()
    if shape.isalpha():
        return None
    if _YEAR.fullmatch(cell) and shape == "9" and not any(map(_YEAR.fullmatch, present)):
        return None
    return _shape(cell) != shape


def _shape(text: str) -> str:
    """The classes of the characters: A for letters, 9 for digits, each run as one; the rest."""
    return re.sub(r"[0-9]+", "9", re.sub(r"[^\W\d_]+", "A", text))
