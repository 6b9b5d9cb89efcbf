"""REFERENCES of CREATE TABLE and ALTER TABLE."""

from __future__ import annotations

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError, ProgrammingError
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import Name

_ACTIONS = (("NO", "ACTION"), ("RESTRICT",))
_REFUSED = {
    "DELETE": "leave it out, and delete the rows that refer to a row before the row: DELETE FROM "
    "{child} WHERE …, then DELETE FROM {parent} WHERE …",
    "UPDATE": "leave it out: a key to which rows refer is not changed; INSERT the new row, UPDATE "
    "the rows that refer to the old one, and DELETE it",
}


@frozen
class ForeignKeyClause:
    """FOREIGN KEY, or REFERENCES of a column.

    columns: its columns.
    table: the table that it refers to.
    referenced: the columns of that table; (): its primary key.
    """

    columns: tuple[Name, ...]
    table: Name
    referenced: tuple[Name, ...]


def parse_references(reader: StatementReader, columns: tuple[Name, ...]) -> ForeignKeyClause:
    """REFERENCES t [(column, …)] [ON {DELETE | UPDATE} {NO ACTION | RESTRICT}] [MATCH SIMPLE]
    [NOT DEFERRABLE] [INITIALLY IMMEDIATE]. The other actions are refused."""
    reader.expect("REFERENCES")
    table = reader.object_name("the table that the column refers to")
    referenced = reader.names("a column") if reader.peek() == "(" else ()
    if referenced and len(referenced) != len(columns):
        raise ProgrammingError(
            f"the foreign key has {len(columns)} columns, and refers to {len(referenced)}",
            hint="list one column of the other table for each of its columns",
            position=referenced[0].position,
        )
    while _accept_option(reader, table):
        pass
    return ForeignKeyClause(columns, table, referenced)


def _accept_option(reader: StatementReader, table: Name) -> bool:
    position = reader.position
    if reader.peek() == "ON" and reader.peek(1) in _REFUSED:
        reader.next()
        event = reader.next().text.upper()
        if any(reader.accept(*action) for action in _ACTIONS):
            return True
        action = " ".join(
            word for word in (reader.peek(), reader.peek(1)) if word not in (",", ")", "")
        )
        raise NotSupportedError(
            f"ON {event} {action} is not supported",
            detail="DuckDB, which checks the key, only refuses the change: NO ACTION, RESTRICT",
            hint=_REFUSED[event].format(child="the_other_table", parent=table.text),
            position=position,
        )
    if reader.peek() == "DEFERRABLE" or (
        reader.peek() == "INITIALLY" and reader.peek(1) == "DEFERRED"
    ):
        raise NotSupportedError(
            f"{reader.peek()} is not supported: a foreign key is checked by each statement",
            hint="leave it out, and write the row before the rows that refer to it",
            position=position,
        )
    return (
        reader.accept("MATCH", "SIMPLE")
        or reader.accept("NOT", "DEFERRABLE")
        or reader.accept("INITIALLY", "IMMEDIATE")
    )
