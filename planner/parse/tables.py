"""CREATE TABLE and DROP TABLE."""

from __future__ import annotations

from typing import Any

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import Command, Name, Query, Statement
from runnel.planner.parse.types import parse_type
from runnel.sqltypes import VARCHAR, SqlType

_TEXTS = ("VARCHAR", "CHAR", "CHARACTER", "CHARACTER VARYING", "NVARCHAR", "TEXT", "STRING")
_ENDS = (
    ",",
    ")",
    "NOT",
    "NULL",
    "DEFAULT",
    "PRIMARY KEY",
    "UNIQUE",
    "CHECK",
    "CONSTRAINT",
    "REFERENCES",
    "COLLATE",
    "GENERATED",
    "CASCADE",
    "RESTRICT",
)
_REFUSED = {
    "REFERENCES": "write the condition in the query that joins the tables",
    "FOREIGN KEY": "write the condition in the query that joins the tables",
    "GENERATED": "compute the column in a view: CREATE VIEW v AS SELECT *, … FROM t; in place of "
    "IDENTITY: CREATE SEQUENCE s, then DEFAULT nextval('s')",
    "COLLATE": "texts are compared by their code points",
    "AUTO_INCREMENT": "CREATE SEQUENCE s, then DEFAULT nextval('s')",
    "AUTOINCREMENT": "CREATE SEQUENCE s, then DEFAULT nextval('s')",
    "EXCLUDE": "use UNIQUE",
    "WITH": "leave the storage parameters out; WITH ('connector' = '…') is a table of Flink",
    "PARTITION": "leave the clause out: DuckDB divides the rows by itself",
}
_SERIALS = ("SERIAL", "BIGSERIAL", "SMALLSERIAL")


@frozen
class ConditionText:
    """An expression of a table's definition.

    text: as written.
    tree: its sqlglot tree.
    position: of its first token.
    """

    text: str
    tree: Any
    position: Position


@frozen
class TableColumnClause:
    """A column as CREATE TABLE declares it.

    name: the column.
    type: its type; None if a query defines it.
    length: the greatest length of a text, in characters; None: any.
    default: the expression of DEFAULT; None: NULL.
    is_not_null: whether NOT NULL is written.
    """

    name: Name
    type: SqlType | None
    length: int | None = None
    default: ConditionText | None = None
    is_not_null: bool = False


@frozen
class KeyClause:
    """PRIMARY KEY or UNIQUE.

    columns: its columns.
    is_primary: whether it is PRIMARY KEY.
    """

    columns: tuple[Name, ...]
    is_primary: bool


@frozen(kw_only=True)
class CreateTable(Statement):
    """CREATE TABLE.

    name: the table.
    columns: the declared columns; () if the query defines them.
    keys: PRIMARY KEY and UNIQUE, of columns and of the table.
    checks: the conditions of CHECK.
    query: the query after AS; None: the table is empty.
    has_data: False after WITH NO DATA.
    or_replace: whether an existing table is replaced.
    if_not_exists: whether an existing table is left as it is.
    is_temporary: whether TEMPORARY is written: the table is not stored in a directory.
    """

    name: Name
    columns: tuple[TableColumnClause, ...]
    keys: tuple[KeyClause, ...]
    checks: tuple[ConditionText, ...]
    query: Query | None
    has_data: bool
    or_replace: bool
    if_not_exists: bool
    is_temporary: bool

    @property
    def parameters(self) -> int:
        """The number of `?` in `sql`."""
        return 0 if self.query is None else self.query.parameters


@frozen(kw_only=True)
class DropTable(Command):
    """DROP TABLE.

    names: the tables.
    if_exists: whether a missing table is no error.
    is_cascading: whether jobs that use a table are suspended.
    """

    names: tuple[Name, ...]
    if_exists: bool
    is_cascading: bool


class TableReader:
    """Reads the list of columns and constraints."""

    def __init__(self, reader: StatementReader) -> None:
        self._reader = reader
        self.columns: list[TableColumnClause] = []
        self.keys: list[KeyClause] = []
        self.checks: list[ConditionText] = []

    def read(self) -> None:
        """Reads `(column type constraints, constraint, …)`."""
        reader = self._reader
        reader.expect("(")
        while True:
            if not self.table_constraint():
                self.column()
            if not reader.accept(","):
                break
            if reader.peek() == ")" and self.columns:
                break
        self.refuse()
        reader.expect(")")

    def table_constraint(self) -> bool:
        """Reads a constraint of the table; False if something else comes next."""
        reader = self._reader
        if reader.peek() == "CONSTRAINT" and reader.peek(2) in (
            "PRIMARY KEY",
            "UNIQUE",
            "CHECK",
            "FOREIGN KEY",
        ):
            reader.next()
            reader.name("the constraint")
        if reader.peek() in ("FOREIGN KEY", "EXCLUDE"):
            self.refuse()
        if reader.peek() == "PRIMARY KEY" or (reader.peek() == "UNIQUE" and reader.peek(1) == "("):
            is_primary = reader.next().text.upper() != "UNIQUE"
            self._add_key(reader.names("a column"), is_primary)
            return True
        if reader.peek() == "CHECK" and reader.peek(1) == "(":
            self._check()
            return True
        return False

    def column(self) -> None:
        """Reads a column with its constraints."""
        reader = self._reader
        name = reader.unique(
            reader.name("a column"), [item.name for item in self.columns], "column"
        )
        sql_type, length = self._type()
        default, is_not_null = None, False
        while True:
            if reader.accept("CONSTRAINT"):
                reader.name("the constraint")
            if reader.accept("NOT", "NULL"):
                is_not_null = True
            elif reader.accept("NULL"):
                continue
            elif reader.accept("DEFAULT"):
                default = self.default()
            elif reader.accept("PRIMARY KEY"):
                self._add_key((name,), True)
            elif reader.accept("UNIQUE"):
                self._add_key((name,), False)
            elif reader.peek() == "CHECK":
                self._check()
            else:
                break
        self.refuse()
        self.columns.append(TableColumnClause(name, sql_type, length, default, is_not_null))

    def _type(self) -> tuple[SqlType, int | None]:
        reader = self._reader
        if reader.peek() in (",", ")") or reader.at_end:
            raise reader.error("the type of the column")
        if reader.peek() in _SERIALS:
            raise NotSupportedError(
                f"type {reader.peek()} is not supported",
                hint=f"use BIGINT: {_REFUSED['AUTO_INCREMENT']}",
                position=reader.position,
            )
        if reader.peek() in _TEXTS and reader.peek(1) == "(":
            reader.next()
            reader.expect("(")
            position = reader.position
            text = "" if reader.at_end else reader.next().text
            if not text.isascii() or not text.isdecimal() or not 0 < int(text[:10]) < 10**9:
                raise ProgrammingError(
                    "the length of a text is a number of characters, at least 1", position=position
                )
            reader.expect(")")
            return VARCHAR, int(text)
        return parse_type(reader), None

    def default(self) -> ConditionText | None:
        """Reads the expression of DEFAULT; None for NULL."""
        reader = self._reader
        start, position = reader.index, reader.position
        if reader.peek() == "NULL":
            reader.next()
            return None
        tree = reader.expression(*_ENDS)
        return self._text(start, tree, position)

    def _check(self) -> None:
        reader = self._reader
        reader.expect("CHECK", "(")
        start, position = reader.index, reader.position
        tree = reader.expression(")")
        self.checks.append(self._text(start, tree, position))
        reader.expect(")")

    def _text(self, start: int, tree: Any, position: Position) -> ConditionText:
        reader = self._reader
        first, last = reader.tokens[start], reader.tokens[reader.index - 1]
        return ConditionText(reader.sql[first.start : last.end + 1], tree, position)

    def _add_key(self, columns: tuple[Name, ...], is_primary: bool) -> None:
        if is_primary and any(key.is_primary for key in self.keys):
            raise ProgrammingError(
                "a table has one PRIMARY KEY",
                hint="list its columns: PRIMARY KEY (a, b); or use UNIQUE",
                position=columns[0].position,
            )
        self.keys.append(KeyClause(columns, is_primary))

    def refuse(self) -> None:
        """NotSupportedError if a clause of other databases comes next."""
        reader = self._reader
        word = reader.peek()
        if word in _REFUSED:
            raise NotSupportedError(
                f"{word} in a table is not supported",
                hint=_REFUSED[word],
                position=reader.position,
            )


def parse_create_table(
    reader: StatementReader, position: Position, or_replace: bool, temporary: bool
) -> Statement:
    """CREATE [OR REPLACE] [TEMP] TABLE [IF NOT EXISTS] t {(columns) | [(names)] AS query | LIKE s};
    the reader is after TABLE. With the options of Flink, WITH ('connector' = …), a CREATE
    MAPPING."""
    if_not_exists = reader.accept_if_not_exists(or_replace)
    name = reader.object_name("the table")
    if "WITH" in reader.words or "LIKE" in reader.words:
        flags = (or_replace, if_not_exists, temporary)
        found = _parse_of_flink(reader, position, name, flags)
        if found is not None:
            return found
    body = TableReader(reader)
    names: tuple[TableColumnClause, ...] = ()
    if reader.peek() == "(":
        if reader.peek(2) in (",", ")"):
            names = tuple(TableColumnClause(item, None) for item in reader.names("a column"))
        else:
            body.read()
    query, has_data = None, True
    if reader.accept("AS"):
        query, has_data = _query(reader)
    if (query is None) is not bool(body.columns):
        raise _incomplete(reader, body, names)
    if query is None and reader.parameters:
        raise ProgrammingError(
            "the definition of a table can't have parameters",
            hint="write the value as a literal",
            position=Position.at(reader.sql, min(reader.parameters)),
        )
    body.refuse()
    return CreateTable(
        sql=reader.sql,
        position=position,
        name=name,
        columns=names or tuple(body.columns),
        keys=tuple(body.keys),
        checks=tuple(body.checks),
        query=query,
        has_data=has_data,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
        is_temporary=temporary,
    )


def _parse_of_flink(
    reader: StatementReader, position: Position, name: Name, flags: tuple[bool, bool, bool]
) -> Statement | None:
    """The statement of Flink: with options, or with LIKE. None for another one."""
    # Loaded on first use: most tables have no options.
    from runnel.planner.parse.flink import tables, written

    form = tables.form_of(reader)
    if form == "composed":
        return written.parse_composed(reader, position, name, flags)
    return tables.parse_flink_table(reader, position, name, flags) if form == "options" else None


def _incomplete(
    reader: StatementReader, body: TableReader, names: tuple[TableColumnClause, ...]
) -> ProgrammingError:
    if body.columns:
        return ProgrammingError(
            "a table is defined either by columns with types or by a query",
            hint="leave the types out: CREATE TABLE t (a, b) AS SELECT …",
            position=reader.position,
        )
    error = reader.error("the columns, or AS and a query")
    if names:
        error = ProgrammingError(
            f'column "{names[0].name.text}" has no type',
            hint="write CREATE TABLE t (column type, …), or CREATE TABLE t (a, b) AS SELECT …",
            position=names[0].name.position,
        )
    return error


def _query(reader: StatementReader) -> tuple[Query, bool]:
    """The query after AS, and whether its rows are written."""
    words = [word for word in reader.words[reader.index :] if word]
    has_data = True
    tokens = reader.tokens
    if words[-3:] == ["WITH", "NO", "DATA"]:
        has_data, reader.tokens = False, tokens[:-3]
    elif words[-2:] == ["WITH", "DATA"]:
        reader.tokens = tokens[:-2]
    query = reader.query()
    reader.tokens = tokens
    reader.index = len(tokens)
    return query, has_data


def parse_drop_table(reader: StatementReader, position: Position) -> DropTable:
    """DROP TABLE [IF EXISTS] t, … [CASCADE | RESTRICT]; the reader is after TABLE."""
    if_exists = reader.accept("IF", "EXISTS")
    names = [reader.object_name("the table")]
    while reader.accept(","):
        names.append(reader.unique(reader.object_name("the table"), names, "table"))
    is_cascading = reader.accept("CASCADE")
    if not is_cascading:
        reader.accept("RESTRICT")
    return DropTable(
        sql=reader.sql,
        position=position,
        names=tuple(names),
        if_exists=if_exists,
        is_cascading=is_cascading,
    )
