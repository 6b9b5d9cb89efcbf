"""ALTER TABLE of the columns, the watermark and the key of a table with options.

    ALTER TABLE orders ADD (discount INT AFTER amount, net AS amount - discount)

The changes are made in the text of the CREATE TABLE, which is then read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

from runnel.base.frozen import frozen
from runnel.errors import DuplicateColumn, Error, Position, ProgrammingError, suggest
from runnel.planner.parse.flink.written import (
    CONSTRAINTS,
    WATERMARKS,
    Clauses,
    TableItem,
    quoted,
    table_item,
)
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import Name, Statement
from runnel.planner.parse.tokens import tokenize

_FIRST = ""
"""The `after` of FIRST."""
_CALLED = {WATERMARKS: "watermark", CONSTRAINTS: "primary key"}


class ItemAction(Enum):
    """The kind of a change of an item of CREATE TABLE."""

    ADD = "ADD"
    MODIFY = "MODIFY"
    DROP = "DROP"
    RENAME = "RENAME"


@frozen
class ItemChange:
    """One change.

    action: ADD, MODIFY, DROP or RENAME.
    item: the new item; for DROP and RENAME the name of a column, without its text.
    position: its position in the statement.
    after: the column after which the item is placed, in lower case; "": it is the first one; None:
        it stays in its position, or is the last one.
    new_name: of RENAME.
    is_optional: whether IF EXISTS or IF NOT EXISTS is written.
    """

    action: ItemAction
    item: TableItem
    position: Position
    after: str | None = None
    new_name: str = ""
    is_optional: bool = False


@frozen(kw_only=True)
class AlterItems(Statement):
    """ALTER TABLE of a table with options.

    name: the table.
    if_exists: whether a missing table is no error.
    changes: the changes, in order.
    new_name: of RENAME TO; None without it.
    refusal: the error for a table of Runnel's own; None if the statement is valid for it, too.
    """

    name: Name
    if_exists: bool
    changes: Sequence[ItemChange]
    new_name: Name | None
    refusal: Error | None


def items_of(sql: str, refusal: Error | None) -> AlterItems:
    """The changes of an ALTER TABLE. `refusal`: the error for a table of Runnel's own, which is
    raised if the statement is none for a table with options, either."""
    reader = StatementReader(tokenize(sql), sql, {})
    position = reader.position
    reader.expect("ALTER", "TABLE")
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.object_name("the table")
    new_name = None
    changes: list[ItemChange] = []
    try:
        if reader.accept("RENAME", "TO"):
            new_name = reader.name("the new name")
        else:
            changes = _changes(reader)
        reader.accept(";")
        reader.finish()
    except ProgrammingError:
        if refusal is None:
            raise
        raise refusal from None
    return AlterItems(
        sql=sql,
        position=position,
        name=name,
        if_exists=if_exists,
        changes=changes,
        new_name=new_name,
        refusal=refusal,
    )


def _changes(reader: StatementReader) -> list[ItemChange]:
    found = []
    while True:
        found += _change(reader)
        if not reader.accept(","):
            return found


def _change(reader: StatementReader) -> list[ItemChange]:
    if reader.accept("RENAME"):
        reader.accept("COLUMN")
        name = reader.name("a column")
        reader.expect("TO")
        new_name = reader.name("the new name").text
        column = TableItem("", name.text.lower(), "")
        return [ItemChange(ItemAction.RENAME, column, name.position, new_name=new_name)]
    for action, read in (
        (ItemAction.ADD, _written),
        (ItemAction.MODIFY, _written),
        (ItemAction.DROP, _dropped),
    ):
        if reader.accept(action.value):
            if not reader.accept("("):
                return [read(reader, action)]
            found = [read(reader, action)]
            while reader.accept(","):
                found.append(read(reader, action))
            reader.expect(")")
            return found
    raise reader.error("one of ADD, MODIFY, DROP or RENAME")


def _written(reader: StatementReader, action: ItemAction) -> ItemChange:
    """An item with FIRST or AFTER column."""
    reader.accept("COLUMN")
    is_optional = reader.accept("IF", "NOT", "EXISTS")
    start, position = reader.index, reader.position
    reader.skip_to(",", ")", ";", "FIRST", "AFTER")
    if reader.index - start < 2:
        raise reader.error("a column and its type")
    first, last = reader.tokens[start], reader.tokens[reader.index - 1]
    text = reader.sql[first.start : last.end + 1]
    item = table_item(reader.words[start : reader.index], first.text, text)
    after = None
    if reader.accept("FIRST"):
        after = _FIRST
    elif reader.accept("AFTER"):
        after = reader.name("a column").text.lower()
    return ItemChange(action, item, position, after=after, is_optional=is_optional)


def _dropped(reader: StatementReader, action: ItemAction) -> ItemChange:
    position = reader.position
    if reader.peek() == "WATERMARK" and reader.peek(1) in ("", ";"):
        reader.next()
        return ItemChange(action, TableItem(WATERMARKS, "", ""), position)
    if reader.accept("PRIMARY KEY"):
        return ItemChange(action, TableItem(CONSTRAINTS, "", ""), position)
    if reader.accept("CONSTRAINT"):
        reader.name("a constraint")
        return ItemChange(action, TableItem(CONSTRAINTS, "", ""), position)
    reader.accept("COLUMN")
    is_optional = reader.accept("IF", "EXISTS")
    name = reader.name("a column")
    column = TableItem("", name.text.lower(), "")
    return ItemChange(action, column, name.position, is_optional=is_optional)


def changed(clauses: Clauses, changes: Sequence[ItemChange]) -> Clauses:
    """The clauses of a table after the changes."""
    for change in changes:
        clauses = _after(clauses, change)
    return clauses


def _after(clauses: Clauses, change: ItemChange) -> Clauses:
    items = list(clauses.items)
    index = next((i for i, item in enumerate(items) if _is_same(item, change.item)), None)
    if change.action is ItemAction.ADD:
        if index is not None:
            if change.is_optional:
                return clauses
            raise _exists(change)
        items.insert(_index_of(items, change, len(items)), change.item)
        return replace(clauses, items=tuple(items))
    if index is None:
        if change.is_optional:
            return clauses
        raise _missing(items, change)
    if change.action is ItemAction.RENAME:
        return _renamed(clauses, index, change)
    removed = items.pop(index)
    if change.action is ItemAction.MODIFY:
        items.insert(_index_of(items, change, index), change.item)
    elif removed.name and _reads(clauses.partition, removed.name):
        raise ProgrammingError(
            f'column "{removed.name}" is in PARTITIONED BY', position=change.position
        )
    return replace(clauses, items=tuple(items))


def _is_same(item: TableItem, other: TableItem) -> bool:
    """Whether an item has the name of a column, or is the watermark or the key as well."""
    return item.name == other.name if other.name else item.feature == other.feature


def _index_of(items: Sequence[TableItem], change: ItemChange, otherwise: int) -> int:
    """The index at which an item is inserted."""
    if change.after is None:
        return otherwise
    if change.after == _FIRST:
        return 0
    for index, item in enumerate(items):
        if item.name == change.after:
            return index + 1
    raise _no_column(items, change.after, change.position)


def _exists(change: ItemChange) -> ProgrammingError:
    called = _CALLED.get(change.item.feature)
    if called is not None:
        return ProgrammingError(
            f"the table has a {called} already",
            hint="use MODIFY to change it",
            position=change.position,
        )
    return DuplicateColumn(
        f'column "{change.item.name}" exists already',
        hint="use MODIFY to change its type",
        position=change.position,
    )


def _missing(items: Sequence[TableItem], change: ItemChange) -> ProgrammingError:
    called = _CALLED.get(change.item.feature)
    if called is not None:
        return ProgrammingError(f"the table has no {called}", position=change.position)
    return _no_column(items, change.item.name, change.position)


def _no_column(items: Sequence[TableItem], name: str, position: Position) -> ProgrammingError:
    names = [item.name for item in items if item.name]
    return ProgrammingError(
        f'column "{name}" not found',
        hint=suggest(name, names) or f"the columns are: {', '.join(names)}",
        position=position,
    )


def _renamed(clauses: Clauses, index: int, change: ItemChange) -> Clauses:
    """The clauses with another name of a column, also in the key and in PARTITIONED BY. Computed
    columns and the watermark must not read it."""
    old, new = change.item.name, change.new_name
    items = list(clauses.items)
    if any(item.name == new.lower() for item in items) and new.lower() != old:
        raise DuplicateColumn(f'column "{new}" exists already', position=change.position)
    for number, item in enumerate(items):
        if number == index:
            rest = item.text[tokenize(item.text)[0].end + 1 :]
            items[number] = replace(item, name=new.lower(), text=quoted(new) + rest)
        elif item.feature == CONSTRAINTS:
            items[number] = replace(item, text=_with_name(item.text, old, new))
        elif item.feature in ("GENERATED", WATERMARKS) and _reads(item.text, old):
            raise ProgrammingError(
                f'column "{old}" is used by {item.text}',
                hint="drop it first, and add it again by the new name",
                position=change.position,
            )
    partition = _with_name(clauses.partition, old, new) if clauses.partition else ""
    return replace(clauses, items=tuple(items), partition=partition)


def _reads(text: str, name: str) -> bool:
    return bool(text) and any(token.text.lower() == name for token in tokenize(text))


def _with_name(text: str, old: str, new: str) -> str:
    """The text with a name in the place of another one."""
    for token in reversed(tokenize(text)):
        if token.text.lower() == old:
            text = text[: token.start] + quoted(new) + text[token.end + 1 :]
    return text
