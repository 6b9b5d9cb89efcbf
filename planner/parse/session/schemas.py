"""The statements about schemas and attached databases of other systems: a database has the one
schema `public`, which DuckDB calls `main`."""

from __future__ import annotations

from runnel.catalog import ONLY_SCHEMAS
from runnel.errors import ErrorCode, NotSupportedError, Position, ProgrammingError, as_written
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import Name, NoEffect

_ONLY = ("runnel", "default_catalog", *ONLY_SCHEMAS)
"""The names of the only catalog and its only schema, here, in DuckDB and in Flink."""
_ALWAYS_FOUND = ("$user", "pg_catalog", "")
"""Names of a search path that hide no table."""
_PREFIX = (
    "all tables are in one schema: write s_t in place of s.t, or connect to a directory for each"
)


def parse_use(reader: StatementReader) -> NoEffect:
    """USE [CATALOG] name, of the only catalog or schema."""
    position = reader.position
    reader.expect("USE")
    reader.accept("CATALOG")
    names = [] if reader.at_end else [reader.name("a catalog")]
    while names and reader.accept("."):
        names.append(reader.name("a schema"))
    _check_only("USE", names, position)
    return NoEffect(sql=reader.sql, position=position)


def parse_create_schema(reader: StatementReader, position: Position) -> NoEffect:
    """{SCHEMA | DATABASE} [IF NOT EXISTS] name, after CREATE: of the only schema."""
    word = reader.next().text.upper()
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name("a schema")
    if name.text.lower() not in _ONLY:
        raise NotSupportedError(
            f"CREATE {word} is not supported", hint=_PREFIX, position=name.position
        )
    if not if_not_exists:
        raise ProgrammingError(
            f'schema "{name}" exists already', hint="use IF NOT EXISTS", position=name.position
        )
    return NoEffect(sql=reader.sql, position=position)


def parse_drop_schema(reader: StatementReader, position: Position) -> NoEffect:
    """{SCHEMA | DATABASE} [IF EXISTS] name [CASCADE | RESTRICT], after DROP: of no schema."""
    word = reader.next().text.upper()
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name("a schema")
    if not reader.accept("CASCADE"):
        reader.accept("RESTRICT")
    if name.text.lower() in _ONLY:
        raise NotSupportedError(
            f"DROP {word} is not supported",
            hint=f'"{name}" is the only schema: drop its tables',
            position=name.position,
        )
    if not if_exists:
        raise ProgrammingError(
            f'schema "{name}" does not exist',
            code=ErrorCode.OBJECT_NOT_FOUND,
            hint='there is one schema, "public"',
            position=name.position,
        )
    return NoEffect(sql=reader.sql, position=position)


def parse_search_path(reader: StatementReader, position: Position) -> NoEffect:
    """{search_path | SCHEMA} {= | TO} 'schema', …, after SET: of the only schema."""
    word = reader.next().text
    if not reader.accept("TO"):
        reader.expect("=")
    names: list[Name] = []
    while not reader.at_end:
        where, token = reader.position, reader.next()
        names += [Name(item.strip(' "'), where) for item in token.text.split(",")]
        if not reader.accept(","):
            break
    _check_only(f"SET {word}", names, position)
    return NoEffect(sql=reader.sql, position=position)


def _check_only(words: str, names: list[Name], position: Position) -> None:
    for name in names:
        if name.text.lower() not in (*_ONLY, *_ALWAYS_FOUND):
            raise NotSupportedError(
                f'{words} of "{name}" is not supported', hint=_PREFIX, position=name.position
            )
    if not names:
        raise NotSupportedError(f"{words} without a name is not supported", position=position)


_SYSTEMS = {
    "SQLITE": "read the tables in Python: con.register('t', pandas.read_sql(…)), then CREATE TABLE "
    "u AS FROM t",
    "POSTGRES": "read the rows in Python: con.register('t', pandas.read_sql(…)); to follow "
    "changes, send them to Kafka",
    "MYSQL": "read the rows in Python: con.register('t', pandas.read_sql(…)); to follow "
    "changes, send them to Kafka",
}


def refused_attach(reader: StatementReader) -> NotSupportedError:
    """The error for ATTACH 'path' [AS name] [(TYPE system)], with the statements to write."""
    position = reader.position
    words = [token.text for token in reader.tokens[reader.index :]]
    upper = [word.upper() for word in words]
    for system, remedy in _SYSTEMS.items():
        if any(word.startswith(system) for word in upper):
            return NotSupportedError(
                f"ATTACH of {system} is not supported", hint=remedy, position=position
            )
    path = next((w for w in words[1:] if w.upper() not in ("DATABASE", "IF", "NOT", "EXISTS")), "f")
    name = words[upper.index("AS") + 1] if "AS" in upper[:-1] else path.rpartition("/")[2]
    name = as_written(name.partition(".")[0] or "d")
    return NotSupportedError(
        "ATTACH is not supported",
        hint=f"write CREATE DATA CONNECTION {name} TYPE DuckDB OPTIONS ('path' = '{path}'), then "
        f"for each table CREATE MAPPING t DATA CONNECTION {name}; or connect('{path}') alone",
        position=position,
    )
