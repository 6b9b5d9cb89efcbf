"""SHOW, SET, RESET."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError, Position, ProgrammingError, as_written
from runnel.planner.parse.query.query import parse_query
from runnel.planner.parse.reader import INSTEAD_OF_TYPES, StatementReader
from runnel.planner.parse.syntax import (
    Command,
    Name,
    NamePattern,
    NoEffect,
    Query,
    SetOption,
    Show,
)
from runnel.planner.parse.tokens import blank, like, tokenize

if TYPE_CHECKING:
    from runnel.planner.parse.session.schemas import UseSchemas

_JOB_COLUMNS = "id, name, status, query, uptime, rows_per_second, watermark_lag, last_error"
"""The columns of information_schema.jobs that SHOW JOBS shows."""
_LISTS = ("MAPPINGS", "VIEWS", "SNAPSHOTS", "PLANS", "INDEXES", "SETTINGS", "FUNCTIONS")
_NAMED = ("MAPPINGS", "VIEWS", "SNAPSHOTS", "INDEXES", "FUNCTIONS")
"""The lists whose names LIKE compares."""
_QUERIES = {
    "TABLES": ("name", 'SELECT name FROM "show tables"'),
    "DATABASES": ("database_name", 'SELECT name AS database_name FROM "show databases"'),
    "CATALOGS": ("catalog_name", 'SELECT name AS catalog_name FROM "show catalogs"'),
    "CATALOG": ("catalog_name", "SELECT current_database() AS catalog_name"),
    "MODULES": ("module_name", "SELECT 'core' AS module_name"),
    "JARS": ("jar", "SELECT '' AS jar WHERE FALSE"),
    "CURRENT": ("database_name", "SELECT current_schema() AS database_name"),
    "SEARCH_PATH": ("search_path", 'SELECT * FROM "show search_path"'),
    "SCHEMAS": ("schema_name", 'SELECT * FROM "show schemas"'),
}
"""The lists that are queries, with the column that LIKE compares."""
_OF = ("FROM", "IN")
"""The words before the database whose objects are listed."""
_CONDITIONS = ("LIKE", "ILIKE", "NOT", "WHERE", "ORDER BY", "LIMIT")
_REMEDIES = {
    "TYPES": INSTEAD_OF_TYPES,
    "PROCEDURES": "there are functions: SHOW FUNCTIONS",
    "CONNECTIONS": "write SHOW DATA CONNECTIONS",
    "MODELS": "a model is a function in Python: see Connection.create_function",
    "MATERIALIZED": "there are no materialized tables: SHOW MATERIALIZED VIEWS",
}
_CONSTANTS: dict[str, bool | None] = {"TRUE": True, "FALSE": False, "DEFAULT": None}


def parse_show(reader: StatementReader) -> Show | Query:
    """SHOW {[ALL] TABLES | CATALOGS | DATABASES | CURRENT {CATALOG | DATABASE} | SCHEMAS
    | MAPPINGS | [MATERIALIZED] VIEWS | JOBS … | SNAPSHOTS | PLANS | INDEXES | SETTINGS
    | FUNCTIONS | ALL | DATA CONNECTIONS
    | CREATE [TABLE | MAPPING | VIEW] name
    | USER FUNCTIONS | PARTITIONS name | RESOURCES FOR name
    | COLUMNS {FROM | IN} name [LIKE pattern] | setting}"""
    position = reader.position
    reader.expect("SHOW")
    if reader.accept("MATERIALIZED", "VIEWS"):
        like = _pattern(reader, False)
        return Show(sql=reader.sql, position=position, what="materialized views", like=like)
    word = _shown_word(reader)
    if word == "JOBS":
        return _parse_show_jobs(reader, position)
    if word in _QUERIES or (word == "VIEWS" and reader.peek(1) in _OF):
        return _parse_show_query(reader, position, word)
    if word == "ALL" and reader.peek(1) == "TABLES":
        reader.expect("ALL", "TABLES")
        return Show(sql=reader.sql, position=position, what="all tables")
    if word in _LISTS or word == "ALL":
        reader.next()
        if word == "FUNCTIONS":
            _skip_database(reader)
        return Show(
            sql=reader.sql,
            position=position,
            what="settings" if word == "ALL" else word.lower(),
            like=_pattern(reader, word == "FUNCTIONS") if word in _NAMED else None,
        )
    if word in _REMEDIES:
        raise NotSupportedError(
            f"SHOW {word} is not supported", hint=_REMEDIES[word], position=reader.position
        )
    if word == "PARTITIONS" or (word == "USER" and reader.peek(1) == "FUNCTIONS"):
        return _of_flink(reader, position)
    if reader.accept("DATA", "CONNECTIONS"):
        return Show(sql=reader.sql, position=position, what="data connections")
    if reader.peek() == "CREATE" and len(reader.tokens) > reader.index + 1:
        return _parse_show_create(reader, position)
    if reader.accept("RESOURCES"):
        return _resources(reader, position)
    if reader.accept("COLUMNS"):
        if not reader.accept("IN"):
            reader.expect("FROM")
        return Show(
            sql=reader.sql,
            position=position,
            what="columns",
            name=reader.object_name("a table"),
            like=_pattern(reader, False),
        )
    return Show(sql=reader.sql, position=position, what="setting", name=_setting(reader))


def _resources(reader: StatementReader, position: Position) -> Show:
    """FOR name, after RESOURCES"""
    if not reader.accept("FOR"):
        raise ProgrammingError(
            "SHOW RESOURCES needs a data connection",
            hint="write SHOW RESOURCES FOR name",
            position=reader.position,
        )
    name = reader.name("a data connection")
    return Show(sql=reader.sql, position=position, what="resources", name=name)


def _of_flink(reader: StatementReader, position: Position) -> Show:
    """{PARTITIONS name | USER FUNCTIONS [LIKE pattern]}"""
    if reader.accept("PARTITIONS"):
        name = reader.object_name("a table")
        if reader.peek() == "PARTITION":
            raise NotSupportedError(
                "SHOW PARTITIONS … PARTITION is not supported",
                hint=f"SHOW PARTITIONS {name} lists all; some are SELECT DISTINCT b FROM {name} "
                "WHERE a = …",
                position=reader.position,
            )
        return Show(sql=reader.sql, position=position, what="partitions", name=name)
    reader.expect("USER", "FUNCTIONS")
    _skip_database(reader)
    pattern = _pattern(reader, True)
    return Show(sql=reader.sql, position=position, what="user functions", like=pattern)


def _skip_database(reader: StatementReader) -> None:
    """[{FROM | IN} [catalog.]database]: each database has the same functions."""
    if reader.peek() in _OF:
        reader.next()
        reader.object_name("a database")


def _shown_word(reader: StatementReader) -> str:
    """The word after SHOW; CATALOG for CURRENT CATALOG, and CURRENT for CURRENT DATABASE."""
    if reader.peek() == "EXTERNAL" and reader.peek(1) == "MAPPINGS":
        reader.next()
    word = reader.peek()
    if word == "FULL" and reader.peek(1) == "":
        raise reader.error("MODULES, as in SHOW FULL MODULES; SHOW JOBS FULL has all columns")
    if word == "CURRENT" and reader.peek(1) in ("CATALOG", "DATABASE"):
        reader.next()
        return "CATALOG" if reader.peek() == "CATALOG" else "CURRENT"
    if word == "FULL" and reader.peek(1) == "MODULES":
        reader.next()
        return reader.peek()
    return word


def _parse_show_query(reader: StatementReader, position: Position, word: str) -> Query:
    """{{TABLES | VIEWS} [{FROM | IN} schema] | DATABASES [{FROM | IN} catalog] | CATALOGS
    | SCHEMAS} with the conditions of a query."""
    token = reader.next()
    name, query = _QUERIES.get(word, ("name", ""))
    if word in ("TABLES", "VIEWS") and (reader.accept("FROM") or reader.accept("IN")):
        schema = as_written(reader.name("a schema").text)
        if reader.accept("."):
            schema += "." + as_written(reader.name("a schema").text)
        query = f'SELECT name FROM {schema}."show {word.lower()}"'
    elif word == "DATABASES" and (reader.accept("FROM") or reader.accept("IN")):
        catalog = reader.name("a catalog").text
        own = "runnel" if catalog.lower() == "default_catalog" else catalog.replace("'", "''")
        query = (
            'SELECT schema_name AS database_name FROM "show schemas" '
            f"WHERE LOWER(database_name) = LOWER('{own}') AND schema_name <> 'information_schema'"
        )
    head = f"SELECT * FROM ({query}) AS t"
    if reader.peek() in ("LIKE", "ILIKE", "NOT"):
        head += f" WHERE {name}"
    elif reader.at_end:
        head += f" ORDER BY {name}"
    return _listing(reader, position, (token, head, "LIKE, WHERE, ORDER BY or LIMIT"))


def _pattern(reader: StatementReader, ignores_case: bool) -> NamePattern | None:
    """[[NOT] {LIKE | ILIKE} 'pattern']; `ignores_case`: whether LIKE ignores case as well."""
    if reader.peek() not in ("NOT", "LIKE", "ILIKE"):
        return None
    negated = reader.accept("NOT")
    if reader.accept("ILIKE"):
        ignores_case = True
    else:
        reader.expect("LIKE")
    if not reader.at_string:
        raise reader.error("a pattern between single quotes")
    return NamePattern(reader.next().text, ignores_case, negated)


def _parse_show_create(reader: StatementReader, position: Position) -> Query:
    """CREATE [TABLE | MAPPING | [MATERIALIZED] VIEW] name, as a query with GET_DDL."""
    create = reader.next()
    if reader.peek() in ("CATALOG", "DATABASE", "FUNCTION") and reader.peek(1) not in ("", "."):
        raise NotSupportedError(
            f"SHOW CREATE {reader.peek()} is not supported",
            hint="it shows a table, mapping or view: SHOW CREATE TABLE t",
            position=reader.position,
        )
    reader.accept("MATERIALIZED", "VIEW")
    has_name = len(reader.tokens) > reader.index + 1
    kind = "relation"
    if reader.peek() in ("TABLE", "MAPPING", "VIEW") and has_name and reader.peek(1) != ".":
        kind = "mapping" if reader.next().text.upper() == "MAPPING" else kind
    name = reader.object_name("a table, mapping or view").text.replace("'", "''")
    head = f"SELECT GET_DDL('{kind}', '{name}') AS \"statement\""
    written = [like(create, token.token_type, token.text) for token in tokenize(head)]
    parsed = parse_query(written, reader.sql, reader.parameters)
    return Query(
        sql=reader.sql, position=position, expression=parsed.tree, text=reader.sql, parameters=0
    )


def _parse_show_jobs(reader: StatementReader, position: Position) -> Query:
    """JOBS [FULL] [LIKE pattern | WHERE condition] [ORDER BY …] [LIMIT …], as a query on
    information_schema.jobs: LIKE compares the name."""
    jobs = reader.next()
    is_full = reader.accept("FULL")
    columns = "*" if is_full else _JOB_COLUMNS
    head = f"SELECT {columns} FROM information_schema.jobs"
    if reader.peek() in ("LIKE", "ILIKE", "NOT"):
        head += " WHERE name"
    words = "LIKE, WHERE, ORDER BY or LIMIT"
    return _listing(reader, position, (jobs, head, words if is_full else f"FULL, {words}"))


def _listing(reader: StatementReader, position: Position, parts: tuple[Token, str, str]) -> Query:
    """A query with the conditions that follow in the statement. `parts`: the token whose position
    the query has, the beginning of the query, and the words that may follow."""
    word, head, expected = parts
    if not reader.at_end and reader.peek() not in _CONDITIONS:
        raise reader.error(expected)
    rest = reader.tokens[reader.index :]
    reader.index = len(reader.tokens)
    # The tokens of the text above have the position of the word.
    written = [like(word, token.token_type, token.text) for token in tokenize(head)]
    parsed = parse_query([*written, *rest], reader.sql, reader.parameters)
    return Query(
        sql=reader.sql,
        position=position,
        expression=parsed.tree,
        text=reader.sql,
        parameters=reader.parameter_count,
    )


@frozen(kw_only=True)
class SetVariable(Command):
    """SET VARIABLE name = expression, or RESET VARIABLE name.

    name: the variable.
    query: the text of a query for the value, whose positions are the ones of the statement; "":
        RESET.
    parameters: the number of parameters in `sql`.
    """

    name: Name
    query: str
    parameters: int = 0


_DOTTED = re.compile(
    r"(?P<head>\s*(?:SET|RESET)\s+)(?P<name>[a-z][\w-]*(?:\.[\w-]+)+)"
    r"(?:(?P<sign>\s*=\s*)(?P<value>[^'\";]*[^'\";\s]))?(?P<end>\s*;?\s*)",
    re.IGNORECASE,
)
_NAMED_WITH_DOTS = re.compile(
    r"(?P<head>\s*SET\s+)(?P<name>[a-z][\w-]*(?:\.[\w-]+)+)(?P<rest>\s*=\s*'.*)",
    re.IGNORECASE | re.DOTALL,
)


def with_quotes(sql: str) -> str:
    """A SET or RESET of Flink's without quotes, such as SET a.b-c = 10 s, with quotes; other texts
    as they are."""
    found = _DOTTED.fullmatch(sql)
    if found is not None and (found["value"] or found["head"].strip().upper() == "RESET"):
        value = "" if found["value"] is None else f"{found['sign']}'{found['value']}'"
        return f"{found['head']}'{found['name']}'{value}{found['end']}"
    found = _NAMED_WITH_DOTS.fullmatch(sql)
    return sql if found is None else f"{found['head']}'{found['name']}'{found['rest']}"


def parse_set(
    reader: StatementReader,
) -> SetOption | SetVariable | Show | NoEffect | UseSchemas:
    """SET {VARIABLE name = expression | {name {= | TO} | TIME ZONE} value}; SET alone is SHOW
    SETTINGS"""
    position = reader.position
    reader.expect("SET")
    if reader.at_end:
        return Show(sql=reader.sql, position=position, what="settings")
    if reader.peek() == "VARIABLE" and reader.peek(1) not in ("=", "TO"):
        return _variable(reader, position)
    if reader.peek() in ("SESSION", "LOCAL", "GLOBAL") and reader.peek(2) in ("=", "TO"):
        reader.next()
    if reader.peek() in ("SEARCH_PATH", "SCHEMA") and reader.peek(1) in ("=", "TO"):
        # Loaded on first use: few sessions have a search path.
        from runnel.planner.parse.session.schemas import parse_search_path

        return parse_search_path(reader, position)
    name = _setting(reader)
    if not reader.accept("TO") and not (name.text == "time_zone" and reader.peek() != "="):
        reader.expect("=")
    return SetOption(sql=reader.sql, position=position, name=name, value=_value(reader))


def _variable(reader: StatementReader, position: Position) -> SetVariable:
    """VARIABLE name {= | TO} expression"""
    reader.expect("VARIABLE")
    name = reader.name("a variable")
    if not reader.accept("TO"):
        reader.expect("=")
    start, sql = reader.position.offset, reader.sql
    reader.expression()
    return SetVariable(
        sql=sql,
        position=position,
        name=name,
        query="SELECT" + blank(sql[len("SELECT") : start]) + sql[start : reader.tokens[-1].end + 1],
        parameters=reader.parameter_count,
    )


def parse_set_config(reader: StatementReader) -> Query:
    """SELECT [pg_catalog.]set_config('search_path', 'value', is_local), as a dump of PostgreSQL has
    it: a query that returns the value. A dump writes each name with its schema, so the path
    changes nothing."""
    position = reader.position
    select = reader.next()
    if reader.accept("PG_CATALOG"):
        reader.expect(".")
    call = reader.next()
    reader.expect("(")
    following = reader.tokens[reader.index : reader.index + 1]
    if following and following[0].token_type is not TokenType.STRING:
        raise NotSupportedError(
            "SET_CONFIG is supported only for 'search_path'",
            hint="use SHOW and SET",
            position=reader.position,
        )
    name = reader.string("the name of a setting in quotes")
    if name.text.lower() != "search_path":
        raise NotSupportedError(
            f"SET_CONFIG of {name.text} is not supported",
            hint="write SET name = value",
            position=name.position,
        )
    reader.expect(",")
    if reader.index >= len(reader.tokens):
        raise reader.error("a value")
    value = reader.next()
    reader.expect(",")
    if not (reader.accept("FALSE") or reader.accept("TRUE")):
        raise reader.error("TRUE or FALSE")
    reader.expect(")")
    reader.finish()
    tokens = [
        select,
        value,
        like(call, TokenType.ALIAS, "AS"),
        like(call, TokenType.VAR, "set_config"),
    ]
    parsed = parse_query(tokens, reader.sql, reader.parameters)
    return Query(
        sql=reader.sql,
        position=position,
        expression=parsed.tree,
        text=reader.sql,
        parameters=reader.parameter_count,
    )


def parse_reset(reader: StatementReader) -> SetOption | SetVariable | UseSchemas:
    """RESET [VARIABLE name | name | ALL]"""
    position = reader.position
    reader.expect("RESET")
    if reader.peek() == "VARIABLE" and reader.peek(1):
        reader.next()
        name = reader.name("a variable")
        return SetVariable(sql=reader.sql, position=position, name=name, query="")
    if reader.peek() in ("SEARCH_PATH", "SCHEMA"):
        from runnel.planner.parse.session.schemas import UseSchemas

        words = f"RESET {reader.next().text}"
        return UseSchemas(sql=reader.sql, position=position, names=(), words=words)
    if reader.at_end:
        return SetOption(sql=reader.sql, position=position, name=Name("ALL", position), value=None)
    if reader.peek() == "ALL":
        return SetOption(
            sql=reader.sql, position=position, name=reader.name("a setting"), value=None
        )
    return SetOption(sql=reader.sql, position=position, name=_setting(reader), value=None)


def _setting(reader: StatementReader) -> Name:
    """The name of a setting, which Flink writes as text; TIME ZONE is the setting time_zone."""
    if reader.at_string:
        position = reader.position
        return Name(reader.next().text, position)
    if reader.peek() == "TIME" and reader.peek(1) == "ZONE":
        position = reader.position
        reader.expect("TIME", "ZONE")
        return Name("time_zone", position)
    return reader.name("a setting")


def _value(reader: StatementReader) -> str | int | float | bool | None:
    if reader.at_end:
        raise reader.error("a value")
    word = reader.peek()
    if word in _CONSTANTS:
        reader.next()
        return _CONSTANTS[word]
    negative = reader.accept("-")
    if not reader.at_end and reader.tokens[reader.index].token_type is TokenType.NUMBER:
        text = reader.next().text.replace("_", "")
        number = int(text) if text.isdecimal() else float(text)
        return -number if negative else number
    if negative:
        raise reader.error("a number")
    if reader.tokens[reader.index].token_type is TokenType.STRING:
        return reader.next().text
    return reader.name("a value").text
