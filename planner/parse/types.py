"""SQL types: parsed from tokens in DDL and casts, and read from sqlglot's trees."""

from __future__ import annotations

from typing import Any

from sqlglot import TokenType

from runnel import sqltypes
from runnel.errors import NotSupportedError, Position, ProgrammingError, suggest
from runnel.planner.parse.tokens import TokenReader, tokenize
from runnel.sqltypes import MAX_PRECISION, SqlType

_SIMPLE = {
    "BOOLEAN": sqltypes.BOOLEAN,
    "BOOL": sqltypes.BOOLEAN,
    "TINYINT": sqltypes.TINYINT,
    "INT1": sqltypes.TINYINT,
    "SMALLINT": sqltypes.SMALLINT,
    "INT2": sqltypes.SMALLINT,
    "INTEGER": sqltypes.INTEGER,
    "INT": sqltypes.INTEGER,
    "INT4": sqltypes.INTEGER,
    "BIGINT": sqltypes.BIGINT,
    "INT8": sqltypes.BIGINT,
    "REAL": sqltypes.REAL,
    "FLOAT4": sqltypes.REAL,
    "DOUBLE": sqltypes.DOUBLE,
    "DOUBLE PRECISION": sqltypes.DOUBLE,
    "FLOAT8": sqltypes.DOUBLE,
    "FLOAT": sqltypes.DOUBLE,
    "VARCHAR": sqltypes.VARCHAR,
    "TEXT": sqltypes.VARCHAR,
    "STRING": sqltypes.VARCHAR,
    "VARBINARY": sqltypes.VARBINARY,
    "BYTEA": sqltypes.VARBINARY,
    "BINARY": sqltypes.VARBINARY,
    "BINARY VARYING": sqltypes.VARBINARY,
    "BLOB": sqltypes.VARBINARY,
    "JSON": sqltypes.JSON,
    "JSONB": sqltypes.JSON,
    "UUID": sqltypes.UUID,
    "DATE": sqltypes.DATE,
    "TIME": sqltypes.TIME,
    "TIMESTAMP": sqltypes.TIMESTAMP,
    "TIMESTAMPTZ": sqltypes.TIMESTAMP_TZ,
    "INTERVAL": sqltypes.INTERVAL,
}
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_NESTED = ("ROW", "STRUCT", "MAP")
_NAMES = (*_SIMPLE, *_DECIMALS, *_NESTED)
_MONTHS = ("YEAR", "MONTH")
_SECONDS = ("DAY", "HOUR", "MINUTE", "SECOND")
TYPE_WORDS = frozenset(_SIMPLE) - {"INTERVAL"} | frozenset(_DECIMALS)
"""The words that can precede a string to form a typed literal."""

MAX_NESTING = 16


def parse_type(source: TokenReader | str) -> SqlType:
    """Parses a type: a whole text, or the next tokens of a reader, which are consumed.

    Raises ProgrammingError for an unknown name and for a DECIMAL with wrong digits,
    NotSupportedError for a type of other SQL engines that Runnel does not have.
    """
    if isinstance(source, str):
        reader = TokenReader(tokenize(source), source)
        parsed = _parse(reader, 0)
        reader.finish()
        return parsed
    return _parse(source, 0)


def _parse(reader: TokenReader, depth: int) -> SqlType:
    if depth > MAX_NESTING:
        raise _too_deep(reader)
    parsed = _base(reader, depth)
    while True:
        depth += 1
        if depth > MAX_NESTING + 1:
            raise _too_deep(reader)
        if reader.accept("ARRAY"):
            parsed = sqltypes.array(parsed)
        elif reader.peek() == "[":
            position = reader.position
            reader.next()
            if not reader.accept("]"):
                raise NotSupportedError(
                    "an array type of fixed size is not supported",
                    hint="leave the size out",
                    position=position,
                )
            parsed = sqltypes.array(parsed)
        else:
            return parsed


def _too_deep(reader: TokenReader) -> NotSupportedError:
    return NotSupportedError(
        f"a type nested more than {MAX_NESTING} deep is not supported", position=reader.position
    )


def _base(reader: TokenReader, depth: int) -> SqlType:
    position = reader.position
    if reader.at_end or reader.tokens[reader.index].token_type is TokenType.STRING:
        raise reader.error("a type")
    name = reader.name("a type")
    # sqlglot returns some names of two words as one token.
    word = " ".join(name.text.upper().split())
    if word in _DECIMALS:
        return _decimal(reader)
    if word == "MAP" or word in ("ROW", "STRUCT"):
        return _map(reader, depth) if word == "MAP" else _row(reader, depth)
    if word == "DOUBLE":
        reader.accept("PRECISION")
    elif word in ("CHARACTER VARYING", "CHAR VARYING"):
        word = "VARCHAR"
    elif word == "INTERVAL":
        return _interval(reader)
    found = _SIMPLE.get(word)
    if found is None:
        raise _unknown(name.text, position)
    if reader.peek() == "(":
        raise _sized(word, reader.position)
    if word in ("TIMESTAMP", "TIME"):
        return _zoned(reader, found, position)
    return found


def _zoned(reader: TokenReader, plain: SqlType, position: Position) -> SqlType:
    if reader.accept("WITHOUT", "TIME", "ZONE"):
        return plain
    if not reader.accept("WITH", "TIME", "ZONE"):
        return plain
    if plain is sqltypes.TIME:
        raise NotSupportedError(
            "TIME WITH TIME ZONE is not supported",
            hint="use TIME or TIMESTAMP WITH TIME ZONE",
            position=position,
        )
    return sqltypes.TIMESTAMP_TZ


def _interval(reader: TokenReader) -> SqlType:
    """Reads the field or the range of fields after INTERVAL, if there is one. YEAR and MONTH select
    the year-month type; no field, or DAY to SECOND, the day-time type."""
    if reader.peek() not in (*_MONTHS, *_SECONDS):
        return sqltypes.INTERVAL
    fields = _MONTHS if reader.peek() in _MONTHS else _SECONDS
    reader.next()
    if reader.accept("TO"):
        if reader.peek() not in fields:
            raise reader.error("an interval field of the same kind")
        reader.next()
    return sqltypes.INTERVAL_MONTH if fields is _MONTHS else sqltypes.INTERVAL


def _decimal(reader: TokenReader) -> SqlType:
    if not reader.accept("("):
        return sqltypes.decimal()
    position = reader.position
    precision = _number(reader, "a precision")
    scale = _number(reader, "a scale") if reader.accept(",") else 0
    reader.expect(")")
    if not 1 <= precision <= MAX_PRECISION:
        raise ProgrammingError(
            f"DECIMAL can't have {precision} digits",
            hint=f"the precision is from 1 to {MAX_PRECISION}",
            position=position,
        )
    if scale > precision:
        raise ProgrammingError(
            f"the scale of DECIMAL({precision}, {scale}) is greater than its precision",
            position=position,
        )
    return sqltypes.decimal(precision, scale)


def _number(reader: TokenReader, what: str) -> int:
    if reader.at_end or not reader.tokens[reader.index].text.isdecimal():
        raise reader.error(what)
    return int(reader.next().text[:9])


def _row(reader: TokenReader, depth: int) -> SqlType:
    reader.expect("(")
    fields: list[tuple[str, SqlType]] = []
    while True:
        name = reader.name("a field")
        if any(name.text.lower() == known.lower() for known, _ in fields):
            raise ProgrammingError(f'field "{name}" is listed twice', position=name.position)
        fields.append((name.text, _parse(reader, depth + 1)))
        if not reader.accept(","):
            break
    reader.expect(")")
    return sqltypes.row(*fields)


def _map(reader: TokenReader, depth: int) -> SqlType:
    reader.expect("(")
    key = _parse(reader, depth + 1)
    reader.expect(",")
    value = _parse(reader, depth + 1)
    reader.expect(")")
    return sqltypes.map_of(key, value)


def _sized(word: str, position: Position) -> NotSupportedError:
    return NotSupportedError(
        f"{word} with a length or precision is not supported",
        hint=f"write {word} alone",
        position=position,
    )


def _unknown(name: str, position: Position) -> ProgrammingError | NotSupportedError:
    upper = name.upper()
    if upper in ("CHAR", "CHARACTER", "BPCHAR", "NCHAR"):
        return NotSupportedError(
            f"type {upper} is not supported", hint="use VARCHAR", position=position
        )
    if upper == "OBJECT":
        remedy = "use ROW(field type, …) or JSON"
        return NotSupportedError("type OBJECT is not supported", hint=remedy, position=position)
    if upper in ("ENUM", "UNION", "BIT", "XML"):
        return NotSupportedError(f"type {upper} is not supported", position=position)
    known = [item.lower() for item in _NAMES]
    hint = suggest(
        name,
        known,
        "types are BOOLEAN, BIGINT, DECIMAL(p, s), DOUBLE, VARCHAR, DATE, TIMESTAMP and so on",
    )
    return ProgrammingError(f'unknown type "{name}"', hint=hint, position=position)


def sql_type_of(node: Any) -> SqlType:
    """The type of an exp.DataType (the target of an exp.Cast) in a tree that `parse` returned.

    The token pass parsed the type; `shapes.finish` stored it in the node's `meta`.
    """
    known: SqlType = node.meta["sql_type"]
    return known
