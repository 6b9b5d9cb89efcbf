"""Flink's CREATE CATALOG and DROP CATALOG: an attached database in memory. Loaded on first use."""

from __future__ import annotations

from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.session.schemas import Attach, Detach
from runnel.planner.parse.syntax import Name
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
