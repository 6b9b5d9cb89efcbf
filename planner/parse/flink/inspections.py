"""ANALYZE TABLE, ALTER VIEW, and DESCRIBE of what is no table: CATALOG, DATABASE and JOB. Loaded on
first use."""

from __future__ import annotations

from dataclasses import replace

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError, Position
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import Command, CreateView, Name, NoEffect, Query
from runnel.planner.parse.tokens import like, tokenize

_DESCRIPTIONS = {
    "JOB": "SELECT id, name, status, query, uptime, last_error FROM information_schema.jobs "
    "WHERE name = {0} OR CAST(id AS VARCHAR) = {0}",
    "CATALOG": 'SELECT \'name\' AS "info name", name AS "info value" FROM "show catalogs" '
    "WHERE {0} IN ('default_catalog', name)",
    "DATABASE": 'SELECT \'name\' AS "info name", schema_name AS "info value" FROM '
    "\"show schemas\" WHERE schema_name = CASE {0} WHEN 'default_database' THEN 'public' "
    "WHEN 'main' THEN 'public' ELSE {0} END",
}
"""The query of each description, for a name as a text."""


@frozen(kw_only=True)
class RenameView(Command):
    """ALTER VIEW … RENAME TO.

    name: the view.
    new_name: its new name.
    if_exists: whether a missing view is no error.
    """

    name: Name
    new_name: Name
    if_exists: bool


def parse_analyze(reader: StatementReader) -> NoEffect:
    """ANALYZE TABLE name [PARTITION (…)] COMPUTE STATISTICS [FOR {COLUMNS … | ALL COLUMNS}]"""
    position = reader.position
    reader.expect("ANALYZE", "TABLE")
    reader.object_name("a table")
    if reader.accept("PARTITION"):
        reader.expect("(")
        reader.skip_to(")")
        reader.expect(")")
    reader.expect("COMPUTE", "STATISTICS")
    if reader.accept("FOR"):
        if reader.accept("ALL"):
            reader.expect("COLUMNS")
        else:
            reader.expect("COLUMNS")
            while True:
                reader.name("a column")
                if not reader.accept(","):
                    break
    return NoEffect(sql=reader.sql, position=position)


def parse_alter_view(reader: StatementReader) -> CreateView | RenameView:
    """ALTER VIEW [IF EXISTS] name {AS query | RENAME TO name}"""
    position = reader.position
    reader.expect("ALTER", "VIEW")
    if_exists = reader.accept("IF", "EXISTS")
    start = reader.index
    name = reader.object_name("a view")
    if reader.accept("RENAME"):
        reader.expect("TO")
        new_name = reader.object_name("the new name")
        return RenameView(
            sql=reader.sql, position=position, name=name, new_name=new_name, if_exists=if_exists
        )
    if if_exists or reader.peek() != "AS":
        raise NotSupportedError(
            f"ALTER VIEW {'IF EXISTS … ' if if_exists else ''}{reader.peek()} is not supported",
            hint="write ALTER VIEW v AS SELECT …, or ALTER VIEW v RENAME TO w",
            position=reader.position,
        )
    reader.index = start
    # Loaded on first use, as the other readers.
    from runnel.planner.parse.ddl import parse_view

    return replace(parse_view(reader, position, True, False), must_exist=True)


def parse_description(reader: StatementReader, position: Position) -> Query:
    """{CATALOG | DATABASE | SCHEMA | JOB} [EXTENDED] name, after DESCRIBE"""
    from runnel.planner.parse.query.query import parse_query

    word = reader.next()
    kind = word.text.upper()
    if len(reader.tokens) > reader.index + 1:
        reader.accept("EXTENDED")
    name = reader.next().text if reader.at_string else reader.name("a name").text
    while kind == "DATABASE" and reader.accept("."):
        name = reader.name("a database").text
    text = "'" + name.replace("'", "''") + "'"
    query = _DESCRIPTIONS["DATABASE" if kind == "SCHEMA" else kind].format(text)
    written = [like(word, token.token_type, token.text) for token in tokenize(query)]
    parsed = parse_query(written, reader.sql, reader.parameters)
    return Query(
        sql=reader.sql, position=position, expression=parsed.tree, text=reader.sql, parameters=0
    )
