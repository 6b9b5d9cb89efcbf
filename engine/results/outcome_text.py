"""A sentence on the outcome of a statement that returned no rows: what it created, how many rows it
wrote."""

from __future__ import annotations

import re

from runnel.results.rows import FAILED

_NO_WORD = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(r'"(?:[^"]|"")*"|[\w$.]+|.', re.DOTALL)

_WRITTEN = {
    "INSERT": "inserted",
    "UPDATE": "updated",
    "DELETE": "deleted",
    "MERGE": "merged",
    "COPY": "copied",
}
_DONE = {"CREATE": "created", "ALTER": "changed", "DROP": "dropped"}
_TABLES = {"CREATE": "created", "TRUNCATE": "emptied"}
_PREFIXES = frozenset({"OR", "REPLACE", "TEMP", "TEMPORARY", "EXTERNAL", "UNIQUE", "SHARED"})
_KINDS = frozenset(
    "MAPPING TABLE VIEW INDEX JOB SNAPSHOT SCHEMA FUNCTION MACRO SEQUENCE TYPE".split()
)


def outcome_text(sql: str | None, rowcount: int) -> str:
    """The outcome of the last statement of a cursor.

    rowcount: number of rows that it wrote; −1: it wrote none; FAILED.
    """
    if sql is None:
        return "no statement was executed"
    words = _words(sql, 12)
    first = words[0].upper() if words else ""
    if rowcount == FAILED:
        return f"{first or 'the statement'} failed"
    if rowcount >= 0:
        rows = f"{rowcount:,} row{'' if rowcount == 1 else 's'}"
        if first in ("CREATE", "TRUNCATE") and (subject := _subject(words[1:])):
            return f"table {subject[1]} {_TABLES[first]}, {rows}"
        return f"{rows} {_WRITTEN.get(first, 'written')}"
    if first in _DONE and (subject := _subject(words[1:])):
        kind, name, is_conditional = subject
        if is_conditional:
            condition = "unless it existed" if first == "CREATE" else "if it existed"
            return f"{kind} {name} {_DONE[first]}, {condition}"
        return f"{kind} {name} {_DONE[first]}"
    return f"{first} done"


def _subject(words: list[str]) -> tuple[str, str, bool] | None:
    """Kind and name of the object that a definition names, and whether IF [NOT] EXISTS precedes the
    name; None if the words are of another kind of statement."""
    upper = [word.upper() for word in words]
    index = 0
    while index < len(upper) and upper[index] in _PREFIXES:
        index += 1
    if upper[index : index + 2] == ["DATA", "CONNECTION"]:
        kind, index = "data connection", index + 2
    elif index < len(upper) and upper[index] in _KINDS:
        kind, index = upper[index].lower(), index + 1
    else:
        return None
    is_conditional = upper[index : index + 1] == ["IF"]
    if is_conditional:
        index += 3 if upper[index + 1 : index + 2] == ["NOT"] else 2
    return (kind, words[index], is_conditional) if index < len(words) else None


def first_word(sql: str | None) -> str:
    """The first word of a statement in upper case, after comments; "" if there is none."""
    words = _words(sql or "", 1)
    return words[0].upper() if words else ""


def _words(sql: str, most: int) -> list[str]:
    """The first words of a statement, without comments."""
    words: list[str] = []
    position = _NO_WORD.match(sql).end()  # type: ignore[union-attr]
    while position < len(sql) and len(words) < most:
        found = _WORD.match(sql, position)
        assert found is not None
        words.append(found[0])
        position = _NO_WORD.match(sql, found.end()).end()  # type: ignore[union-attr]
    return words
