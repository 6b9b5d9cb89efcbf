"""Flink's CREATE CATALOG and DROP CATALOG, of an attached database in memory, and CREATE FUNCTION
of a module's function. Loaded on first use."""

from __future__ import annotations

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.session.schemas import Attach, Detach
from runnel.planner.parse.syntax import Command, Name
from runnel.planner.parse.tokens import read_options

_IN_MEMORY = "generic_in_memory"
_TYPES = {
    "hive": "read its files: CREATE TABLE t (…) WITH ('connector' = 'filesystem', 'path' = '…', "
    "'format' = 'parquet')",
    "jdbc": "read the tables in Python: con.register('t', pandas.read_sql(…)); a DuckDB file is "
    "opened by ATTACH 'file.duckdb' AS c",
    "iceberg": "name each table: CREATE MAPPING t TYPE Iceberg OPTIONS ('path' = '…')",
    "delta-catalog": "name each table: CREATE MAPPING t TYPE Delta OPTIONS ('path' = '…')",
    "paimon": "write the rows as Iceberg tables: CREATE MAPPING t TYPE Iceberg OPTIONS "
    "('path' = '…')",
}
"""The remedy for each type of catalog that Runnel does not have."""


def parse_create_catalog(reader: StatementReader, position: Position) -> Attach:
    """CATALOG [IF NOT EXISTS] name [COMMENT 'text'] WITH ('type' = 'generic_in_memory'), after
    CREATE"""
    reader.expect("CATALOG")
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name("the catalog")
    if reader.accept("COMMENT"):
        reader.string("a comment in quotes")
    if not reader.accept("WITH"):
        raise ProgrammingError(
            "CREATE CATALOG has no options",
            hint=f"write CREATE CATALOG {name} WITH ('type' = '{_IN_MEMORY}')",
            position=position,
        )
    known = {"type", "default-database"}
    options = {option.name.text.lower(): option for option in read_options(reader)}
    kind = options.get("type")
    if kind is None or str(kind.value).lower() != _IN_MEMORY:
        value = "" if kind is None else str(kind.value).lower()
        raise NotSupportedError(
            f"a catalog of type '{value}' is not supported",
            hint=_TYPES.get(value, f"the type is '{_IN_MEMORY}': a database in memory"),
            position=position if kind is None else kind.name.position,
        )
    for key, option in options.items():
        is_default = key == "default-database" and option.value not in ("default", "main")
        if key not in known or is_default:
            raise NotSupportedError(
                f"option '{key}' = '{option.value}' of CREATE CATALOG is not supported",
                hint=f"its first database is {name}.main, and CREATE DATABASE {name}.d makes more",
                position=option.name.position,
            )
    return Attach(
        sql=reader.sql,
        position=position,
        path=Name(":memory:", position),
        name=name,
        is_read_only=False,
        if_not_exists=if_not_exists,
        or_replace=False,
    )


def parse_drop_catalog(reader: StatementReader, position: Position) -> Detach:
    """CATALOG [IF EXISTS] name, after DROP"""
    reader.expect("CATALOG")
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name("the catalog")
    return Detach(sql=reader.sql, position=position, name=name, if_exists=if_exists)


@frozen(kw_only=True)
class CreateFunction(Command):
    """CREATE FUNCTION … AS 'module.function' LANGUAGE PYTHON.

    name: the function in SQL.
    identifier: the module and the function.
    if_not_exists: whether an existing function is left as it is.
    """

    name: Name
    identifier: Name
    if_not_exists: bool


def is_function(reader: StatementReader) -> bool:
    """Whether [SYSTEM] FUNCTION of Flink comes next: AS with a text follows the name."""
    words = reader.words[reader.index :]
    if words[:1] == ["SYSTEM"]:
        words = words[1:]
    if words[:1] != ["FUNCTION"] or "AS" not in words:
        return False
    end = words.index("AS")
    # The text of a string is no word.
    return "(" not in words[:end] and words[end + 1 : end + 2] == [""]


def parse_create_function(reader: StatementReader, position: Position) -> CreateFunction:
    """[SYSTEM] FUNCTION [IF NOT EXISTS] name AS 'module.function' LANGUAGE PYTHON, after
    CREATE [TEMPORARY]"""
    reader.accept("SYSTEM")
    reader.expect("FUNCTION")
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.public_name("the function")
    reader.expect("AS")
    identifier = reader.string("a module and a function in quotes")
    language = reader.name("PYTHON").text.upper() if reader.accept("LANGUAGE") else "JAVA"
    if language != "PYTHON" or reader.peek() == "USING":
        raise NotSupportedError(
            f"CREATE FUNCTION in {language} is not supported"
            if language != "PYTHON"
            else "USING of CREATE FUNCTION is not supported",
            hint=f"write it in Python: CREATE FUNCTION {name} AS 'module.function' LANGUAGE "
            f"PYTHON, or connection.create_function('{name}', f, …)",
            position=position,
        )
    if "." not in identifier.text.strip("."):
        raise ProgrammingError(
            f"'{identifier.text}' has no module",
            hint="write the module before the function: 'module.function'",
            position=identifier.position,
        )
    return CreateFunction(
        sql=reader.sql,
        position=position,
        name=name,
        identifier=identifier,
        if_not_exists=if_not_exists,
    )
