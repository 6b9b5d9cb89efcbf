"""CREATE TABLE as text: LIKE of Flink and PostgreSQL, and AS of Flink, compose one from the clauses
of the statement and the columns of another table or of a query.

    CREATE TABLE b WITH ('path' = 'b') LIKE a (EXCLUDING WATERMARKS)

becomes a CREATE TABLE with all columns and options, which is translated like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from runnel.base.frozen import frozen
from runnel.errors import Position
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import Name, Query, Statement
from runnel.planner.parse.tokens import read_options, tokenize

COLUMN = "COLUMNS"
CONSTRAINTS = "CONSTRAINTS"
OPTIONS = "OPTIONS"
PARTITIONS = "PARTITIONS"
WATERMARKS = "WATERMARKS"
FEATURES = (CONSTRAINTS, "GENERATED", "METADATA", OPTIONS, PARTITIONS, WATERMARKS)
"""The features of a table that LIKE includes or excludes."""
_OVERWRITTEN = ("GENERATED", "METADATA", OPTIONS, WATERMARKS)
_ACTIONS = ("INCLUDING", "EXCLUDING", "OVERWRITING")
_DEFAULT: Mapping[str, str] = {
    **dict.fromkeys(FEATURES, "INCLUDING"),
    OPTIONS: "OVERWRITING",
}


COPIED = ("DEFAULTS", "CONSTRAINTS", "INDEXES", "GENERATED", "IDENTITY")
"""The features that PostgreSQL's LIKE copies if INCLUDING names them: DEFAULT, CHECK, the keys,
GENERATED ALWAYS AS, and IDENTITY with numbers of its own. Columns and NOT NULL are copied in any
case."""
_NOT_COPIED = ("COMMENTS", "COMPRESSION", "STATISTICS", "STORAGE")
"""Features that no table has."""


@frozen
class CopiedColumns:
    """LIKE in the parentheses of CREATE TABLE, as in PostgreSQL.

    source: the table.
    included: the words of COPIED that INCLUDING names.
    """

    source: Name
    included: frozenset[str]


@frozen
class TableItem:
    """An item in the parentheses of CREATE TABLE.

    feature: the word of LIKE for items of this kind; COLUMNS for a plain column.
    name: of a column, in lower case; "" for others.
    text: as it is written.
    copied: the LIKE of PostgreSQL, which stands for the columns of a table; None: another item.
    """

    feature: str
    name: str
    text: str
    copied: CopiedColumns | None = None


@frozen
class Clauses:
    """The clauses of CREATE TABLE after the name.

    items: columns, WATERMARK FOR and PRIMARY KEY.
    partition: the text of PARTITIONED BY, with its parentheses; "" without it.
    options: the items of WITH, by name.
    """

    items: tuple[TableItem, ...]
    partition: str
    options: Mapping[str, str]

    @property
    def connector(self) -> str:
        """The value of option 'connector'; "" without it."""
        options = {name.lower(): value for name, value in self.options.items()}
        return options.get("connector", "").strip().lower()

    def text(self, name: str) -> str:
        """The statement that creates a table of that name."""
        parts = [f"CREATE TABLE {quoted(name)}"]
        if self.items:
            parts.append("(" + ", ".join(item.text for item in self.items) + ")")
        if self.partition:
            parts.append(f"PARTITIONED BY {self.partition}")
        if self.options:
            options = (f"{_text(name)} = {_text(value)}" for name, value in self.options.items())
            parts.append(f"WITH ({', '.join(options)})")
        return " ".join(parts)

    def shown(self, head: str) -> str:
        """The statement on several lines, as SHOW CREATE TABLE has it. `head`: CREATE TABLE and the
        name."""
        lines = [head]
        if self.items:
            lines[0] += " ("
            lines += [",\n".join(f"  {item.text}" for item in self.items), ")"]
        if self.partition:
            lines.append(f"PARTITIONED BY {self.partition}")
        if self.options:
            options = (f"  {_text(name)} = {_text(value)}" for name, value in self.options.items())
            lines += ["WITH (", ",\n".join(options), ")"]
        return "\n".join(lines)


@frozen(kw_only=True)
class ComposedTable(Statement):
    """CREATE TABLE … LIKE source, or CREATE TABLE … WITH (…) AS query.

    name: the table.
    clauses: the clauses of the statement itself.
    source: the table after LIKE, the query after AS, or None if the items have LIKE.
    merging: for each of FEATURES the action of LIKE.
    or_replace: whether an existing table is replaced.
    if_not_exists: whether an existing table is left as it is.
    is_temporary: whether TEMPORARY is written.
    """

    name: Name
    clauses: Clauses
    source: Name | Query | None
    merging: Mapping[str, str]
    or_replace: bool
    if_not_exists: bool
    is_temporary: bool

    @property
    def parameters(self) -> int:
        """The number of parameters in `sql`."""
        return self.source.parameters if isinstance(self.source, Query) else 0


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def with_option(sql: str, name: str, value: str) -> str:
    """A CREATE TABLE … WITH, which was accepted before, with a further option."""
    clauses = read_written(sql)
    return replace(clauses, options={**clauses.options, name: value}).text("t")


def read_written(sql: str) -> Clauses:
    """The clauses of a CREATE TABLE … WITH, which was accepted before."""
    reader = StatementReader(tokenize(sql), sql, {})
    while not reader.accept("TABLE"):
        reader.next()
    reader.accept("IF", "NOT", "EXISTS")
    reader.object_name("the table")
    return _clauses(reader)


def parse_composed(
    reader: StatementReader, position: Position, name: Name, flags: tuple[bool, bool, bool]
) -> ComposedTable:
    """The rest of CREATE TABLE, after the name. `flags`: OR REPLACE, IF NOT EXISTS, TEMPORARY."""
    clauses = _clauses(reader)
    merging = dict(_DEFAULT)
    source: Name | Query | None = None
    if reader.accept("LIKE"):
        source = reader.object_name("a table")
        if reader.accept("("):
            while not reader.accept(")"):
                _merge(reader, merging)
                reader.accept(",")
    elif reader.accept("AS"):
        source = reader.query()
    elif not any(item.copied for item in clauses.items):
        raise reader.error("LIKE and a table, or AS and a query")
    or_replace, if_not_exists, is_temporary = flags
    return ComposedTable(
        sql=reader.sql,
        position=position,
        name=name,
        clauses=clauses,
        source=source,
        merging=merging,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
        is_temporary=is_temporary,
    )


def _merge(reader: StatementReader, merging: dict[str, str]) -> None:
    """Reads `{INCLUDING | EXCLUDING | OVERWRITING} feature`."""
    action = reader.peek()
    if action not in _ACTIONS:
        raise reader.error("one of INCLUDING, EXCLUDING, OVERWRITING")
    reader.next()
    feature = reader.peek()
    known = _OVERWRITTEN if action == "OVERWRITING" else ("ALL", *FEATURES)
    if feature not in known:
        raise reader.error(f"one of {', '.join(known)}")
    reader.next()
    merging.update(dict.fromkeys(FEATURES if feature == "ALL" else (feature,), action))


def _clauses(reader: StatementReader) -> Clauses:
    items = tuple(_items(reader)) if reader.peek() == "(" else ()
    if reader.accept("COMMENT"):
        reader.string("a comment in quotes")
    partition = ""
    if reader.accept("PARTITIONED BY"):
        names = reader.names("a column")
        partition = "(" + ", ".join(quoted(name.text) for name in names) + ")"
    options = read_options(reader) if reader.accept("WITH") else ()
    return Clauses(items, partition, {option.name.text: option.value for option in options})


def _items(reader: StatementReader) -> Sequence[TableItem]:
    reader.expect("(")
    found = []
    while True:
        if reader.peek() == "LIKE":
            found.append(TableItem(COLUMN, "", "", _copied(reader)))
            if reader.accept(","):
                continue
            break
        start, words = reader.index, reader.words
        _skip_item(reader)
        if reader.index == start:
            raise reader.error("a column")
        first, last = reader.tokens[start], reader.tokens[reader.index - 1]
        text = reader.sql[first.start : last.end + 1]
        found += _split(table_item(words[start : reader.index], first.text, text), reader, start)
        if not reader.accept(","):
            break
    reader.expect(")")
    return found


def _skip_item(reader: StatementReader) -> None:
    """Skips to the comma or parenthesis after an item, past the commas of ROW<a INT, b INT>."""
    start = reader.index
    reader.skip_to(",", ")")
    words = reader.words
    while words[start + 1] != "AS" and reader.peek() == ",":
        text = "".join(words[start : reader.index])
        if text.count("<") <= text.count(">"):
            break
        reader.next()
        reader.skip_to(",", ")")


def _split(item: TableItem, reader: StatementReader, start: int) -> list[TableItem]:
    """A column with PRIMARY KEY NOT ENFORCED as a column with NOT NULL, and the key."""
    words = reader.words[start : reader.index]
    if item.feature != COLUMN or words[-3:] != ["PRIMARY KEY", "NOT", "ENFORCED"]:
        return [item]
    end = reader.tokens[reader.index - 4].end + 1
    column = reader.sql[reader.tokens[start].start : end] + " NOT NULL"
    key = f"PRIMARY KEY ({quoted(reader.tokens[start].text)}) NOT ENFORCED"
    return [TableItem(COLUMN, item.name, column), TableItem(CONSTRAINTS, "", key)]


def _copied(reader: StatementReader) -> CopiedColumns:
    """LIKE table [{INCLUDING | EXCLUDING} {DEFAULTS | CONSTRAINTS | INDEXES | … | ALL}] …"""
    reader.expect("LIKE")
    source = reader.object_name("a table")
    included: frozenset[str] = frozenset()
    while reader.peek() in ("INCLUDING", "EXCLUDING"):
        is_included = reader.next().text.upper() == "INCLUDING"
        word = reader.peek()
        if word not in ("ALL", *COPIED, *_NOT_COPIED):
            raise reader.error(f"one of {', '.join((*COPIED, 'ALL'))}")
        reader.next()
        named = frozenset(COPIED if word == "ALL" else [word]).intersection(COPIED)
        included = included | named if is_included else included - named
    return CopiedColumns(source, included)


def table_item(words: Sequence[str], name: str, text: str) -> TableItem:
    """The item of a text, with its words in upper case and its first token."""
    if words[:2] == ["WATERMARK", "FOR"]:
        return TableItem(WATERMARKS, "", text)
    if words[0] == "PRIMARY KEY" or (words[0] == "CONSTRAINT" and words[2:3] == ["PRIMARY KEY"]):
        return TableItem(CONSTRAINTS, "", text)
    feature = COLUMN
    if words[1:2] == ["AS"]:
        feature = "GENERATED"
    elif "METADATA" in words[1:]:
        feature = "METADATA"
    return TableItem(feature, name.lower(), text)
