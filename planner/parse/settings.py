"""SHOW, SET, RESET."""

from __future__ import annotations

from sqlglot import TokenType

from runnel.errors import NotSupportedError, ProgrammingError
from runnel.planner.parse.reader import INSTEAD_OF_TYPES, StatementReader
from runnel.planner.parse.syntax import Name, SetOption, Show

_LISTS = ("MAPPINGS", "VIEWS", "JOBS", "SNAPSHOTS", "PLANS", "INDEXES", "SETTINGS", "FUNCTIONS")
_TABLES = "use SHOW MAPPINGS, SHOW VIEWS, or SELECT table_name FROM information_schema.tables"
_REMEDIES = {"TABLES": _TABLES, "SCHEMAS": _TABLES, "DATABASES": _TABLES, "TYPES": INSTEAD_OF_TYPES}
_CONSTANTS: dict[str, bool | None] = {"TRUE": True, "FALSE": False, "DEFAULT": None}


def parse_show(reader: StatementReader) -> Show:
    """SHOW {MAPPINGS | VIEWS | JOBS | SNAPSHOTS | PLANS | INDEXES | SETTINGS | FUNCTIONS | ALL |
    DATA CONNECTIONS
    | RESOURCES FOR name | COLUMNS {FROM | IN} name | setting}"""
    position = reader.position
    reader.expect("SHOW")
    if reader.peek() == "EXTERNAL" and reader.peek(1) == "MAPPINGS":
        reader.next()
    word = reader.peek()
    if word in _LISTS or word == "ALL":
        reader.next()
        return Show(
            sql=reader.sql, position=position, what="settings" if word == "ALL" else word.lower()
        )
    if word in _REMEDIES:
        raise NotSupportedError(
            f"SHOW {word} is not supported", hint=_REMEDIES[word], position=reader.position
        )
    if reader.accept("DATA", "CONNECTIONS"):
        return Show(sql=reader.sql, position=position, what="data connections")
    if reader.accept("RESOURCES"):
        if not reader.accept("FOR"):
            raise ProgrammingError(
                "SHOW RESOURCES needs a data connection",
                hint="write SHOW RESOURCES FOR name",
                position=reader.position,
            )
        return Show(
            sql=reader.sql,
            position=position,
            what="resources",
            name=reader.name("a data connection"),
        )
    if reader.accept("COLUMNS"):
        if not reader.accept("IN"):
            reader.expect("FROM")
        return Show(
            sql=reader.sql, position=position, what="columns", name=reader.object_name("a table")
        )
    return Show(sql=reader.sql, position=position, what="setting", name=_setting(reader))


def parse_describe(reader: StatementReader) -> Show:
    """{DESCRIBE | DESC} [TABLE] name"""
    position = reader.position
    reader.next()
    if reader.peek() == "TABLE" and reader.peek(1):
        reader.next()
    return Show(
        sql=reader.sql, position=position, what="columns", name=reader.object_name("a table")
    )


def parse_set(reader: StatementReader) -> SetOption:
    """SET {name {= | TO} | TIME ZONE} value"""
    position = reader.position
    reader.expect("SET")
    name = _setting(reader)
    if not reader.accept("TO") and not (name.text == "time_zone" and reader.peek() != "="):
        reader.expect("=")
    return SetOption(sql=reader.sql, position=position, name=name, value=_value(reader))


def parse_reset(reader: StatementReader) -> SetOption:
    """RESET {name | ALL}"""
    position = reader.position
    reader.expect("RESET")
    if reader.peek() == "ALL":
        return SetOption(
            sql=reader.sql, position=position, name=reader.name("a setting"), value=None
        )
    return SetOption(sql=reader.sql, position=position, name=_setting(reader), value=None)


def _setting(reader: StatementReader) -> Name:
    """The name of a setting; TIME ZONE is the setting time_zone."""
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
