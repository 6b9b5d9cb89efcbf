"""SQL types: parsed from tokens in DDL and casts, and read from sqlglot's trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlglot import TokenType

from runnel import sqltypes
from runnel.errors import NotSupportedError, Position, ProgrammingError, UndefinedObject, suggest
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
    "BYTES": sqltypes.VARBINARY,
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
    "DATETIME": sqltypes.TIMESTAMP,
    "TIMESTAMP_US": sqltypes.TIMESTAMP,
    "TIMESTAMP_MS": sqltypes.TIMESTAMP,
    "TIMESTAMP_S": sqltypes.TIMESTAMP,
    "TIMESTAMPTZ": sqltypes.TIMESTAMP_TZ,
    "TIMESTAMP_LTZ": sqltypes.TIMESTAMP_TZ,
    "INTERVAL": sqltypes.INTERVAL_MIXED,
}
OBJECT_KINDS = ("REGCLASS", "REGTYPE", "REGNAMESPACE", "REGROLE")
"""PostgreSQL's types of the numbers of objects, which a CAST can have."""
_OF_CATALOG = {
    "NAME": sqltypes.VARCHAR,
    "OID": sqltypes.BIGINT,
    "INT2VECTOR": sqltypes.array(sqltypes.INTEGER),
    "OIDVECTOR": sqltypes.array(sqltypes.BIGINT),
}
"""Types of the catalog of PostgreSQL."""
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_HUGE = ("HUGEINT", "INT128")
"""DuckDB's integers of 128 bits, which are DECIMAL(38, 0) here."""
_NESTED = ("ROW", "STRUCT", "MAP")
_NAMES = (*_SIMPLE, *_DECIMALS, *_NESTED)
_MONTHS = ("YEAR", "MONTH")
_SECONDS = ("DAY", "HOUR", "MINUTE", "SECOND")
TYPE_WORDS = frozenset(_SIMPLE) - {"INTERVAL"} | frozenset(_DECIMALS)
"""The words that can precede a string to form a typed literal."""


def simple_types() -> list[tuple[str, SqlType]]:
    """The names of types without parameters, and DECIMAL, each with its type."""
    decimals = [(name, sqltypes.decimal(MAX_PRECISION, 0)) for name in _DECIMALS]
    return [*_SIMPLE.items(), *decimals]


MAX_NESTING = 16

_SIZED_TEXTS = ("VARCHAR", "TEXT", "STRING", "CHARACTER VARYING", "CHAR VARYING")
_PADDED_TEXTS = ("CHAR", "CHARACTER")
_SIZED_BYTES = ("BINARY", "VARBINARY")
_SIZED_TIMES = ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_LTZ", "DATETIME")
_DIGITS = (0, 3, 6)
_DIGITS_OF = {"TIMESTAMP_S": 0, "TIMESTAMP_MS": 3}
"""The digits of a second to which a CAST to a type of DuckDB rounds."""
_UNSIGNED = {
    "UTINYINT": (sqltypes.SMALLINT, 2**8 - 1),
    "UINT8": (sqltypes.SMALLINT, 2**8 - 1),
    "USMALLINT": (sqltypes.INTEGER, 2**16 - 1),
    "UINT16": (sqltypes.INTEGER, 2**16 - 1),
    "UINTEGER": (sqltypes.BIGINT, 2**32 - 1),
    "UINT32": (sqltypes.BIGINT, 2**32 - 1),
    "UBIGINT": (sqltypes.decimal(20, 0), 2**64 - 1),
    "UINT64": (sqltypes.decimal(20, 0), 2**64 - 1),
    "UHUGEINT": (sqltypes.decimal(MAX_PRECISION, 0), 10**MAX_PRECISION - 1),
    "UINT128": (sqltypes.decimal(MAX_PRECISION, 0), 10**MAX_PRECISION - 1),
}
"""The type that has all values of each unsigned type of DuckDB, and the greatest of these values.
UHUGEINT has the digits of DECIMAL."""
_ALIASES = {
    "SHORT": "SMALLINT",
    "LONG": "BIGINT",
    "SIGNED": "INTEGER",
    "INTEGRAL": "INTEGER",
    "LOGICAL": "BOOLEAN",
    "NVARCHAR": "VARCHAR",
}
"""Names of DuckDB for other types."""
_REMEDIES = {
    "CHAR": "use VARCHAR",
    "CHARACTER": "use VARCHAR",
    "BPCHAR": "use VARCHAR",
    "NCHAR": "use VARCHAR",
    "OBJECT": "use ROW(field type, …) or JSON",
    "ENUM": "use VARCHAR, in a table with CHECK (column IN ('a', 'b'))",
    "UNION": "use JSON, or a ROW with a field for each type",
    "BIT": "use VARBINARY, or BIGINT with the operators & and |",
    "XML": "use VARCHAR",
    "MONEY": "use DECIMAL(19, 2)",
    "VARIANT": "use JSON",
    "UHUGEINT": "use DECIMAL(38, 0)",
    "UBIGINT": "use DECIMAL(20, 0)",
    "UINT64": "use DECIMAL(20, 0)",
    "UINTEGER": "use BIGINT",
    "UINT32": "use BIGINT",
    "USMALLINT": "use INTEGER",
    "UINT16": "use INTEGER",
    "UTINYINT": "use SMALLINT",
    "UINT8": "use SMALLINT",
    "VARINT": "use DECIMAL(38, 0)",
    "BIGNUM": "use DECIMAL(38, 0)",
    "TIMESTAMP_NS": "use TIMESTAMP, which has microseconds",
    "TIMETZ": "use TIME or TIMESTAMP WITH TIME ZONE",
}
"""The remedy for each type of other systems that does not exist here."""


@dataclass(frozen=True, slots=True)
class TypeLimit:
    """The limit of the values of a type that is stored as a wider one.

    word: the type as it is written.
    low, high: the least and the greatest value; of an array, its least and greatest length.
    """

    word: str
    low: int
    high: int


def parse_limited_type(reader: TokenReader) -> tuple[SqlType, TypeLimit | None]:
    """Parses the type of a value or a column, which may be unsigned, or an array of fixed size.

    Both are stored as a wider type; the caller has each value checked against the limit.
    """
    word = reader.peek()
    unsigned = _UNSIGNED.get(word)
    if unsigned is not None and reader.peek(1) not in ("[", "ARRAY"):
        reader.next()
        return unsigned[0], TypeLimit(word, 0, unsigned[1])
    sizes: list[int] = []
    parsed = _parse(reader, 0, sizes)
    if not sizes:
        return parsed, None
    return parsed, TypeLimit(f"{parsed.element}[{sizes[0]}]", sizes[0], sizes[0])


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


def parse_cast_type(reader: TokenReader) -> tuple[SqlType, int | str | TypeLimit | None]:
    """Parses the type of a CAST, and its length or precision, if it has one; for a type of
    `OBJECT_KINDS` its name.

    CAST(x AS VARCHAR(n)) cuts texts to n characters, and CAST(x AS CHAR(n)), whose size is -n, also
    fills them with spaces; CAST(x AS BINARY(n)) and VARBINARY(n) cut to n bytes. CAST(x AS
    TIMESTAMP(n)) rounds to n digits of a second. They need no type of their own, because they are
    applied once, to the result of the CAST.
    """
    _skip_schema(reader)
    word, position = reader.peek(), reader.position
    if word in OBJECT_KINDS:
        reader.next()
        return sqltypes.VARCHAR, word
    is_sized = word in (*_SIZED_TEXTS, *_SIZED_TIMES, *_PADDED_TEXTS, *_SIZED_BYTES)
    if reader.peek(1) != "(" or not is_sized:
        digits = None if reader.peek(1) in ("[", "ARRAY") else _DIGITS_OF.get(word)
        parsed, limit = parse_limited_type(reader)
        return parsed, digits if limit is None else limit
    reader.next()
    reader.expect("(")
    at = reader.position
    size = _number(reader, "a number")
    reader.expect(")")
    parsed = _SIMPLE.get(word, sqltypes.VARCHAR)
    if word in _PADDED_TEXTS:
        size = -size
    if word == "TIMESTAMP":
        parsed = _zoned(reader, parsed, position)
    if reader.peek() in ("[", "ARRAY"):
        raise _sized(word, position)
    if word in _SIZED_TIMES and size not in _DIGITS:
        raise NotSupportedError(
            f"{word}({size}) is not supported",
            hint="times have microseconds; a CAST rounds to 0, 3 or 6 digits: write "
            f"{word}({min(_DIGITS, key=lambda digits: abs(digits - size))})",
            position=at,
        )
    return parsed, size


def _skip_schema(reader: TokenReader) -> None:
    """Skips PostgreSQL's schema before the name of a type."""
    if reader.peek() == "PG_CATALOG" and reader.peek(1) == ".":
        reader.index += 2


def _parse(reader: TokenReader, depth: int, sizes: list[int] | None = None) -> SqlType:
    """Parses a type; `sizes` gets the size of an array of fixed size, None if it may have none."""
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
            if sizes == [] and not reader.at_end and reader.tokens[reader.index].text.isdecimal():
                sizes.append(_number(reader, "a size"))
                reader.expect("]")
                if reader.peek() == "[":
                    raise _fixed_size(reader.position)
                return sqltypes.array(parsed)
            if not reader.accept("]"):
                raise _fixed_size(position)
            parsed = sqltypes.array(parsed)
        else:
            return parsed


def _fixed_size(position: Position) -> NotSupportedError:
    return NotSupportedError(
        "an array type of fixed size within another type is not supported",
        hint="leave the size out",
        position=position,
    )


def _too_deep(reader: TokenReader) -> NotSupportedError:
    return NotSupportedError(
        f"a type nested more than {MAX_NESTING} deep is not supported", position=reader.position
    )


def _base(reader: TokenReader, depth: int) -> SqlType:
    position = reader.position
    if reader.at_end or reader.tokens[reader.index].token_type is TokenType.STRING:
        raise reader.error("a type")
    _skip_schema(reader)
    is_quoted = reader.tokens[reader.index].token_type is TokenType.IDENTIFIER
    name = reader.name("a type")
    if is_quoted and name.text == "char":  # PostgreSQL's type of single letters of the catalog
        return sqltypes.VARCHAR
    # sqlglot returns some names of two words as one token.
    word = " ".join(name.text.upper().split())
    word = _ALIASES.get(word, word)
    if word in _DECIMALS:
        return _decimal(reader)
    if word in _HUGE:
        return sqltypes.decimal(MAX_PRECISION, 0)
    if word in ("MAP", "ROW", "STRUCT", "ARRAY") and reader.peek() in ("<", "<>"):
        return parse_angled(reader, word, lambda: _element(reader, depth + 1))
    if word == "MAP" or word in ("ROW", "STRUCT"):
        return _map(reader, depth) if word == "MAP" else _row(reader, depth)
    if word == "DOUBLE":
        reader.accept("PRECISION")
    elif word in ("CHARACTER VARYING", "CHAR VARYING"):
        word = "VARCHAR"
    elif word == "INTERVAL":
        return _interval(reader)
    found = _SIMPLE.get(word) or _OF_CATALOG.get(word)
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
    is_local = plain is sqltypes.TIMESTAMP and reader.accept("WITH", "LOCAL", "TIME", "ZONE")
    if not is_local and not reader.accept("WITH", "TIME", "ZONE"):
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
    the year-month type; DAY to SECOND the day-time type; no field the type of both."""
    if reader.peek() not in (*_MONTHS, *_SECONDS):
        return sqltypes.INTERVAL_MIXED
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


def parse_angled(reader: TokenReader, word: str, element: Callable[[], SqlType]) -> SqlType:
    """Parses `<…>` after ROW, STRUCT, ARRAY or MAP.

    element: parses the type of an element, a key, a value or a field.
    """
    reader.expect("<")
    if word == "ARRAY":
        result = sqltypes.array(element())
    elif word == "MAP":
        key = element()
        reader.expect(",")
        result = sqltypes.map_of(key, element())
    else:
        fields: list[tuple[str, SqlType]] = []
        while True:
            name = reader.name("a field")
            fields.append((name.text, element()))
            if reader.peek() == "COMMENT":
                reader.next()
                reader.string("a comment in quotes")
            if not reader.accept(","):
                break
        result = sqltypes.row(*fields)
    reader.expect(">")
    return result


def _element(reader: TokenReader, depth: int) -> SqlType:
    parsed = _parse(reader, depth)
    if not reader.accept("NOT", "NULL"):
        reader.accept("NULL")
    return parsed


def _sized(word: str, position: Position) -> NotSupportedError:
    return NotSupportedError(
        f"{word} with a length or precision is not supported",
        hint=f"write {word} alone",
        position=position,
    )


def _unknown(name: str, position: Position) -> ProgrammingError | NotSupportedError:
    upper = name.upper()
    if upper in _REMEDIES:
        return NotSupportedError(
            f"type {upper} is not supported", hint=_REMEDIES[upper], position=position
        )
    known = [item.lower() for item in _NAMES]
    hint = suggest(
        name,
        known,
        "types are BOOLEAN, BIGINT, DECIMAL(p, s), DOUBLE, VARCHAR, DATE, TIMESTAMP and so on",
    )
    return UndefinedObject(f'unknown type "{name}"', hint=hint, position=position)


def size_of(node: Any) -> int | TypeLimit | None:
    """The length, precision or limit of an exp.DataType, as `parse_cast_type` returned it."""
    size = node.meta.get("size")
    return size if isinstance(size, int | TypeLimit) else None


def object_kind_of(node: Any) -> str | None:
    """The name of a type of `OBJECT_KINDS` that is an exp.DataType; None for other types."""
    kind = node.meta.get("size")
    return kind if isinstance(kind, str) else None


def sql_type_of(node: Any) -> SqlType:
    """The type of an exp.DataType (the target of an exp.Cast) in a tree that `parse` returned.

    The token pass parsed the type; `shapes.finish` stored it in the node's `meta`.
    """
    known: SqlType = node.meta["sql_type"]
    return known
