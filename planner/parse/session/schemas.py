"""The statements about schemas and attached databases: CREATE SCHEMA, DROP SCHEMA, USE, SET
search_path, ATTACH and DETACH."""

from __future__ import annotations

from sqlglot import TokenType

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import Command, Name, NoEffect

_ALWAYS_FOUND = ("$user", "pg_catalog", "")
"""Names of a search path that hide no table."""


@frozen(kw_only=True)
class UseSchemas(Command):
    """USE, SET search_path or SET schema.

    names: the schemas, each with its qualifiers: a catalog, a schema, or both; (): public.
    words: how the statement begins, for errors.
    """

    names: tuple[Name, ...]
    words: str


@frozen(kw_only=True)
class CreateSchema(Command):
    """CREATE SCHEMA.

    name: the schema, which a catalog may qualify.
    if_not_exists: whether an existing schema is no error.
    """

    name: Name
    if_not_exists: bool


@frozen(kw_only=True)
class DropSchema(Command):
    """DROP SCHEMA.

    name: the schema, which a catalog may qualify.
    if_exists: whether a missing schema is no error.
    is_cascading: whether its tables and views are dropped as well.
    """

    name: Name
    if_exists: bool
    is_cascading: bool


@frozen(kw_only=True)
class Attach(Command):
    """ATTACH of a DuckDB file.

    path: the file; ":memory:": there is none.
    name: the name of the database; None: the name of the file without its extension.
    is_read_only: whether it may not be changed.
    if_not_exists, or_replace: whether an attached database of that name is retained, or replaced.
    """

    path: Name
    name: Name | None
    is_read_only: bool
    if_not_exists: bool
    or_replace: bool


@frozen(kw_only=True)
class Detach(Command):
    """DETACH of an attached database.

    name: the database.
    if_exists: whether a missing database is no error.
    """

    name: Name
    if_exists: bool


def parse_use(reader: StatementReader) -> UseSchemas | NoEffect:
    """USE {[CATALOG] {catalog | [catalog.]schema} | MODULES core}"""
    position = reader.position
    reader.expect("USE")
    if reader.peek() == "MODULES" and len(reader.tokens) > reader.index + 1:
        reader.next()
        return _modules(reader, position)
    reader.accept("CATALOG")
    name = _qualified(reader)
    return UseSchemas(sql=reader.sql, position=position, names=(name,), words="USE")


def _modules(reader: StatementReader, position: Position) -> NoEffect:
    """core, after USE MODULES"""
    name = reader.name("a module")
    if name.text.lower() != "core" or not reader.at_end:
        raise NotSupportedError(
            "USE MODULES is supported only for the module core",
            hint="write USE MODULES core; further functions are written in Python: see "
            "Connection.create_function",
            position=name.position,
        )
    return NoEffect(sql=reader.sql, position=position)


def parse_create_schema(reader: StatementReader, position: Position) -> CreateSchema:
    """{SCHEMA | DATABASE} [IF NOT EXISTS] [catalog.]name, after CREATE"""
    reader.next()
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = _qualified(reader)
    if reader.accept("COMMENT"):
        reader.string("a comment in quotes")
    if reader.peek() == "WITH":
        raise NotSupportedError(
            "WITH of CREATE DATABASE is not supported",
            hint="leave it out: a database has no properties",
            position=reader.position,
        )
    if reader.peek() == "AUTHORIZATION":
        raise NotSupportedError(
            "AUTHORIZATION of CREATE SCHEMA is not supported",
            hint="leave it out: objects have no owner",
            position=reader.position,
        )
    return CreateSchema(sql=reader.sql, position=position, name=name, if_not_exists=if_not_exists)


def parse_drop_schema(reader: StatementReader, position: Position) -> DropSchema:
    """{SCHEMA | DATABASE} [IF EXISTS] [catalog.]name [CASCADE | RESTRICT], after DROP"""
    reader.next()
    if_exists = reader.accept("IF", "EXISTS")
    name = _qualified(reader)
    is_cascading = reader.accept("CASCADE")
    if not is_cascading:
        reader.accept("RESTRICT")
    return DropSchema(
        sql=reader.sql,
        position=position,
        name=name,
        if_exists=if_exists,
        is_cascading=is_cascading,
    )


def parse_search_path(reader: StatementReader, position: Position) -> UseSchemas:
    """{search_path | SCHEMA} {= | TO} {'schema, …' | schema, … | DEFAULT}, after SET"""
    word = reader.next().text
    if not reader.accept("TO"):
        reader.expect("=")
    names: list[Name] = []
    while not reader.at_end:
        where, token = reader.position, reader.next()
        if token.text.upper() == "DEFAULT" and token.token_type is not TokenType.STRING:
            break
        texts = token.text.split(",") if token.token_type is TokenType.STRING else [token.text]
        while reader.accept("."):
            texts[-1] += "." + reader.name("a schema").text
        names += [_of_text(text.strip(' "'), where) for text in texts]
        if not reader.accept(","):
            break
    found = tuple(name for name in names if name.text.lower() not in _ALWAYS_FOUND)
    return UseSchemas(sql=reader.sql, position=position, names=found, words=f"SET {word}")


def _qualified(reader: StatementReader) -> Name:
    """Reads [catalog.]name."""
    first = reader.name("a schema")
    if not reader.accept("."):
        return first
    last = reader.name("a schema")
    return Name(f"{first.text}.{last.text}", first.position, (first.text,), last.text)


def _of_text(text: str, position: Position) -> Name:
    catalog, dot, schema = text.partition(".")
    return Name(text, position, (catalog,), schema) if dot else Name(text, position)


_SYSTEMS = {
    "SQLITE": "read the tables in Python: con.register('t', pandas.read_sql(…)), then CREATE TABLE "
    "u AS FROM t",
    "POSTGRES": "read the rows in Python: con.register('t', pandas.read_sql(…)); to follow "
    "changes, send them to Kafka",
    "MYSQL": "read the rows in Python: con.register('t', pandas.read_sql(…)); to follow "
    "changes, send them to Kafka",
    "DUCKLAKE": "read its Parquet files: read_parquet('folder/**/*.parquet')",
    "MD": "download the tables, and attach a file",
}


def parse_attach(reader: StatementReader) -> Attach:
    """ATTACH [OR REPLACE] [DATABASE] [IF NOT EXISTS] 'path' [AS name] [(TYPE duckdb, READ_ONLY)]"""
    position = reader.position
    reader.expect("ATTACH")
    or_replace = reader.accept("OR", "REPLACE")
    reader.accept("DATABASE")
    if_not_exists = reader.accept_if_not_exists(or_replace)
    path = reader.string("the path of a DuckDB file in quotes")
    system = path.text.partition(":")[0].upper() if ":" in path.text[2:] else ""
    _check_system(system, position)
    name = reader.name("a name") if reader.accept("AS") else None
    is_read_only = False
    if reader.accept("("):
        is_read_only = _options(reader)
    text = path.text or ":memory:"
    return Attach(
        sql=reader.sql,
        position=position,
        path=Name(text, path.position),
        name=name,
        is_read_only=is_read_only,
        if_not_exists=if_not_exists,
        or_replace=or_replace,
    )


def _options(reader: StatementReader) -> bool:
    """The rest of (TYPE duckdb, READ_ONLY [true | false]); whether it is read only."""
    is_read_only = False
    while True:
        position, option = reader.position, reader.next().text.upper()
        if option == "TYPE":
            _check_system(reader.next().text.upper(), position)
        elif option in ("READ_ONLY", "READ_WRITE"):
            has_value = reader.peek() in ("TRUE", "FALSE")
            value = reader.next().text.upper() != "FALSE" if has_value else True
            is_read_only = value == (option == "READ_ONLY")
        else:
            raise NotSupportedError(
                f"option {option} of ATTACH is not supported",
                hint="the options are TYPE duckdb and READ_ONLY",
                position=position,
            )
        if not reader.accept(","):
            break
    reader.expect(")")
    return is_read_only


def _check_system(system: str, position: Position) -> None:
    for name, remedy in _SYSTEMS.items():
        if system == name or (name != "MD" and system.startswith(name)):
            raise NotSupportedError(
                f"ATTACH of {name} is not supported", hint=remedy, position=position
            )
    if system not in ("", "DUCKDB"):
        raise ProgrammingError(
            f"ATTACH of {system} is not supported",
            hint="the type of an attached database is duckdb",
            position=position,
        )


def parse_detach(reader: StatementReader) -> Detach:
    """DETACH [DATABASE] [IF EXISTS] name"""
    position = reader.position
    reader.expect("DETACH")
    reader.accept("DATABASE")
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name("a database")
    return Detach(sql=reader.sql, position=position, name=name, if_exists=if_exists)
