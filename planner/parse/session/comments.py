"""COMMENT ON TABLE, VIEW and COLUMN."""

from __future__ import annotations

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError, Position
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import Command, Name

_KINDS = ("TABLE", "VIEW", "COLUMN")


@frozen(kw_only=True)
class CommentOn(Command):
    """COMMENT ON.

    kind: "TABLE", "VIEW" or "COLUMN".
    name: the table or view; of COLUMN the one that has the column.
    column: the column; None: the comment is one on the object.
    text: the comment; None for NULL, which removes it.
    """

    kind: str
    name: Name
    column: Name | None
    text: str | None


def parse_comment(reader: StatementReader) -> CommentOn:
    """COMMENT ON {TABLE | VIEW | COLUMN} name IS {'text' | NULL}"""
    position = reader.position
    reader.expect("COMMENT", "ON")
    kind, where = reader.peek(), reader.position
    if not kind:
        raise reader.error("TABLE, VIEW or COLUMN")
    if kind not in _KINDS:
        raise NotSupportedError(
            f"COMMENT ON {kind} is not supported",
            hint="tables, views and their columns have comments",
            position=where,
        )
    reader.next()
    column = None
    if kind == "COLUMN":
        name, column = _column(reader, where)
    else:
        name = reader.object_name(f"the {kind.lower()}")
    reader.expect("IS")
    text = None if reader.accept("NULL") else reader.string("a comment in quotes").text
    return CommentOn(
        sql=reader.sql, position=position, kind=kind, name=name, column=column, text=text
    )


def _column(reader: StatementReader, position: Position) -> tuple[Name, Name]:
    """[schema.]table.column"""
    end = reader.words.index("IS", reader.index) if "IS" in reader.words[reader.index :] else 0
    if end - reader.index < 3:
        raise reader.error("a table and its column: t.c")
    tokens, reader.tokens = reader.tokens, reader.tokens[: end - 2]
    words, reader.words = reader.words, reader.words[: end - 2]
    name = reader.object_name("the table")
    reader.tokens, reader.words = tokens, words
    reader.expect(".")
    return name, reader.name("a column")
