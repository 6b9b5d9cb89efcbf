"""CREATE and DROP of mappings, data connections, views and indexes; `macros` reads macros."""

from __future__ import annotations

from sqlglot import TokenType

from runnel.errors import NotSupportedError, Position, ProgrammingError, as_written, suggest
from runnel.planner.parse.macros import parse_create_macro, parse_drop_macro
from runnel.planner.parse.reader import INSTEAD_OF_TYPES, StatementReader
from runnel.planner.parse.session.indexes import parse_create_index, parse_drop_index
from runnel.planner.parse.session.sequences import parse_create_sequence, parse_drop_sequence
from runnel.planner.parse.syntax import (
    ComputedClause,
    CreateDataConnection,
    CreateMapping,
    CreateView,
    DropDataConnection,
    DropMapping,
    DropView,
    MappingColumn,
    MappingWatermark,
    Name,
    Statement,
)
from runnel.planner.parse.tables import parse_create_table, parse_drop_table
from runnel.planner.parse.tokens import read_options
from runnel.planner.parse.types import parse_type

_REMEDIES = {
    "DOMAIN": "write the type and the CHECK in the columns: n INT CHECK (n > 0)",
    "TYPE": INSTEAD_OF_TYPES,
    "UNIQUE": "write CREATE UNIQUE INDEX i ON t (a), or UNIQUE in CREATE TABLE",
    "SEQUENCE": "write CREATE SEQUENCE s, without OR REPLACE and TEMP",
    "FUNCTION": "write it in Python, and register it: connection.create_function('f', f, …)",
    "AGGREGATE": "write it in Python: connection.create_function(…)",
    "MODEL": "a model is a function in Python: connection.create_function('f', f, …)",
    "MATERIALIZED": "write CREATE MATERIALIZED VIEW v AS SELECT …; or CREATE TABLE t AS SELECT …",
}
_TEMPORARY = ("TABLE", "VIEW", "FUNCTION", "MACRO")
_OBJECTS = ("TABLE", "MAPPING", "VIEW", "INDEX", "SNAPSHOT")
_KNOWN = (
    "CREATE and DROP support TABLE, MAPPING, VIEW, INDEX, MACRO, SEQUENCE, DATA CONNECTION, JOB "
    "and SNAPSHOT"
)


def parse_create(reader: StatementReader) -> Statement:
    """CREATE [OR REPLACE] {[EXTERNAL] MAPPING | [TEMP] {TABLE | VIEW} | DATA CONNECTION | INDEX}"""
    position = reader.position
    reader.expect("CREATE")
    or_replace = reader.accept("OR", "REPLACE")
    temporary = reader.accept("TEMP") or reader.accept("TEMPORARY")
    external = reader.accept("EXTERNAL")
    if reader.peek() == "UNLOGGED" and reader.peek(1) == "TABLE":
        reader.next()  # PostgreSQL's table that a crash empties: here it is one like any other
    if not temporary and reader.accept("MAPPING"):
        return _create_mapping(reader, position, or_replace)
    if not external and reader.accept("TABLE"):
        return parse_create_table(reader, position, or_replace, temporary)
    if not external and reader.accept("VIEW"):
        return parse_view(reader, position, or_replace, temporary)
    if not (external or temporary) and reader.accept("MATERIALIZED", "VIEW"):
        # Loaded on first use: few programs have materialized views.
        from runnel.planner.parse.session.materialized_views import parse_create_view

        return parse_create_view(reader, position, or_replace)
    if not (external or temporary) and reader.accept("DATA", "CONNECTION"):
        return _create_data_connection(reader, position, or_replace)
    if not (external or temporary or or_replace):
        is_unique = reader.accept("UNIQUE", "INDEX")
        if is_unique or reader.accept("INDEX"):
            return parse_create_index(reader, position, is_unique=is_unique)
    if not external and _is_macro(reader):
        reader.next()
        return parse_create_macro(reader, position, or_replace, temporary)
    if not (external or temporary or or_replace) and reader.accept("SEQUENCE"):
        return parse_create_sequence(reader, position)
    if reader.peek() in ("DATABASE", "SCHEMA"):
        # Loaded on first use: few databases have further schemas.
        from runnel.planner.parse.session.schemas import parse_create_schema

        return parse_create_schema(reader, position)
    if not (external or temporary or or_replace) and reader.peek() == "CATALOG":
        # Loaded on first use: catalogs are Flink's.
        from runnel.planner.parse.flink.definitions import parse_create_catalog

        return parse_create_catalog(reader, position)
    if not (external or or_replace) and reader.peek() in ("SYSTEM", "FUNCTION"):
        from runnel.planner.parse.flink.definitions import is_function, parse_create_function

        if is_function(reader):
            return parse_create_function(reader, position)
    if reader.peek() == "TYPE":
        raise _refused_type(reader, position)
    raise _refused(reader, "CREATE OR REPLACE" if or_replace else "CREATE", position)


def parse_drop(reader: StatementReader) -> Statement:
    """DROP {[EXTERNAL] MAPPING | TABLE | VIEW | DATA CONNECTION | INDEX} [IF EXISTS] name …"""
    position = reader.position
    reader.expect("DROP")
    if reader.peek() in ("TEMP", "TEMPORARY") and reader.peek(1) in (
        "TABLE",
        "VIEW",
        "FUNCTION",
        "MACRO",
    ):
        reader.next()
    if reader.peek() == "TEMPORARY" and reader.peek(1) == "SYSTEM":  # a function of Flink
        reader.expect("TEMPORARY", "SYSTEM")
    external = reader.accept("EXTERNAL")
    if reader.accept("MAPPING"):
        if_exists = reader.accept("IF", "EXISTS")
        name = reader.object_name("the mapping")
        is_cascading = reader.accept("CASCADE")
        if not is_cascading:
            reader.accept("RESTRICT")
        return DropMapping(
            sql=reader.sql,
            position=position,
            name=name,
            if_exists=if_exists,
            is_cascading=is_cascading,
        )
    if not external and reader.accept("TABLE"):
        return parse_drop_table(reader, position)
    if not external and reader.accept("VIEW"):
        if_exists = reader.accept("IF", "EXISTS")
        name = reader.object_name("the view")
        # Views and jobs that read a view do not hold it, so both words change nothing.
        if not reader.accept("CASCADE"):
            reader.accept("RESTRICT")
        return DropView(sql=reader.sql, position=position, name=name, if_exists=if_exists)
    if not external and reader.accept("MATERIALIZED", "VIEW"):
        from runnel.planner.parse.session.materialized_views import parse_drop_view

        return parse_drop_view(reader, position)
    if not external and reader.accept("DATA", "CONNECTION"):
        if_exists = reader.accept("IF", "EXISTS")
        name = reader.name("the data connection")
        return DropDataConnection(sql=reader.sql, position=position, name=name, if_exists=if_exists)
    if not external and reader.accept("INDEX"):
        return parse_drop_index(reader, position)
    if not external and reader.peek() in ("MACRO", "FUNCTION"):
        return parse_drop_macro(reader, position, reader.next().text.upper())
    if not external and reader.accept("SEQUENCE"):
        return parse_drop_sequence(reader, position)
    if reader.peek() in ("DATABASE", "SCHEMA"):
        from runnel.planner.parse.session.schemas import parse_drop_schema

        return parse_drop_schema(reader, position)
    if not external and reader.peek() == "CATALOG":
        from runnel.planner.parse.flink.definitions import parse_drop_catalog

        return parse_drop_catalog(reader, position)
    raise _refused(reader, "DROP", position)


def _refused_type(reader: StatementReader, position: Position) -> NotSupportedError:
    """The error for CREATE TYPE, with what to write in place of an ENUM."""
    words = reader.words[reader.index :]
    hint = INSTEAD_OF_TYPES
    if "ENUM" in words:
        tokens = reader.tokens[reader.index + words.index("ENUM") :]
        texts = [t.text.replace("'", "''") for t in tokens if t.token_type is TokenType.STRING]
        values = ", ".join(f"'{text}'" for text in texts) or "'a', 'b'"
        hint = (
            f"write m VARCHAR CHECK (m IN ({values})), and ORDER BY list_position([{values}], m) "
            "for the order of the list"
        )
    return NotSupportedError("CREATE TYPE is not supported", hint=hint, position=position)


def _is_macro(reader: StatementReader) -> bool:
    """Whether MACRO comes next, or FUNCTION as DuckDB writes it: with parameters, without
    RETURNS."""
    if reader.peek() == "MACRO":
        return True
    if reader.peek() != "FUNCTION":
        return False
    words = [reader.peek(ahead) for ahead in range(1, len(reader.tokens) - reader.index)]
    opening = words.index("(") if "(" in words else len(words)
    return (
        "AS" in words[opening:]
        and not {"AS", "RETURNS"} & set(words[:opening])
        and ("RETURNS" not in words[opening : words.index("AS", opening)])
    )


def _refused(
    reader: StatementReader, verb: str, position: Position
) -> ProgrammingError | NotSupportedError:
    if reader.peek() == "SYSTEM":
        reader.next()
    word = reader.peek()
    if not word or not word.isalpha():
        return reader.error(
            "one of TABLE, MAPPING, VIEW, INDEX, MACRO, SEQUENCE, DATA CONNECTION, JOB or SNAPSHOT"
        )
    return NotSupportedError(
        f"{verb} {word} is not supported",
        hint=_REMEDIES.get(word) or suggest(word, _OBJECTS, _KNOWN),
        position=position,
    )


def _create_mapping(reader: StatementReader, position: Position, or_replace: bool) -> CreateMapping:
    if_not_exists = reader.accept_if_not_exists(or_replace)
    name = reader.object_name("the mapping")
    external_name = _external_name(reader) if reader.accept("EXTERNAL", "NAME") else None
    columns, computed, watermark = _columns(reader) if reader.peek() == "(" else ((), (), None)
    if reader.peek() == "EXTERNAL" and columns:
        raise ProgrammingError(
            'syntax error at "EXTERNAL"',
            hint="EXTERNAL NAME precedes the columns: "
            f"CREATE MAPPING {as_written(name.text)} EXTERNAL NAME … (column type, …) TYPE …",
            position=reader.position,
        )
    connector = connection = None
    if reader.accept("DATA", "CONNECTION"):
        connection = reader.name("a data connection")
    else:
        reader.accept("CONNECTOR")
        reader.expect("TYPE")
        connector = reader.name("a connector")
    object_type = reader.name("an object type") if reader.accept("OBJECT", "TYPE") else None
    options = read_options(reader) if reader.accept("OPTIONS") else ()
    return CreateMapping(
        sql=reader.sql,
        position=position,
        name=name,
        columns=columns,
        connector=connector,
        data_connection=connection,
        options=options,
        external_name=external_name,
        object_type=object_type,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
        watermark=watermark,
        computed=computed,
    )


def _external_name(reader: StatementReader) -> Name:
    """Reads a[.b[.c]], joined by dots."""
    first = _external_part(reader)
    text = first.text
    while reader.accept("."):
        text += "." + _external_part(reader).text
    return Name(text, first.position)


def _external_part(reader: StatementReader) -> Name:
    """One of the names that EXTERNAL NAME joins by dots."""
    if reader.at_string:
        error = reader.error("an external name")
        error.hint = "an external name is an identifier: write it in double quotes"
        raise error
    return reader.name("an external name")


def _columns(
    reader: StatementReader,
) -> tuple[tuple[MappingColumn, ...], tuple[ComputedClause, ...], MappingWatermark | None]:
    """Reads the columns, those that are computed, and WATERMARK FOR, which may be anywhere among
    them."""
    reader.expect("(")
    columns: list[MappingColumn] = []
    computed: list[ComputedClause] = []
    watermark: MappingWatermark | None = None
    while True:
        if reader.peek() == "WATERMARK" and reader.peek(1) == "FOR":
            watermark = _watermark(reader, watermark)
            if not reader.accept(","):
                break
            continue
        known = [item.name for item in columns] + [item.name for item in computed]
        name = reader.unique(reader.name("a column"), known, "column")
        if reader.peek() == "AS":
            computed.append(reader.computed_column(name, len(known)))
        else:
            column_type = parse_type(reader)
            external_name = _external_name(reader) if reader.accept("EXTERNAL", "NAME") else None
            is_not_null = reader.accept("NOT", "NULL")
            columns.append(MappingColumn(name, column_type, external_name, is_not_null))
        if not reader.accept(","):
            break
    if reader.peek() in ("PRIMARY KEY", "NULL", "DEFAULT", "UNIQUE", "CHECK", "REFERENCES"):
        raise NotSupportedError(
            f"{reader.peek()} in a column of a mapping is not supported",
            hint='the key of an IMap is the column named "__key", or with EXTERNAL NAME "__key"',
            position=reader.position,
        )
    reader.expect(")")
    return tuple(columns), tuple(computed), watermark


def _watermark(reader: StatementReader, earlier: MappingWatermark | None) -> MappingWatermark:
    """WATERMARK FOR column AS expression"""
    if earlier is not None:
        raise ProgrammingError(
            "WATERMARK FOR is given twice",
            hint="a mapping has one column of event times",
            position=reader.position,
        )
    reader.expect("WATERMARK", "FOR")
    column = reader.name("a column")
    reader.expect("AS")
    return MappingWatermark(column, reader.expression(",", ")"))


def _create_data_connection(
    reader: StatementReader, position: Position, or_replace: bool
) -> CreateDataConnection:
    if_not_exists = reader.accept_if_not_exists(or_replace)
    name = reader.name("the data connection")
    reader.expect("TYPE")
    connector = reader.name("a connector")
    is_shared = not reader.accept("NOT", "SHARED")
    if is_shared:
        reader.accept("SHARED")
    return CreateDataConnection(
        sql=reader.sql,
        position=position,
        name=name,
        connector=connector,
        options=read_options(reader) if reader.accept("OPTIONS") else (),
        is_shared=is_shared,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
    )


def parse_view(
    reader: StatementReader, position: Position, or_replace: bool, temporary: bool
) -> CreateView:
    """The rest of CREATE VIEW, after VIEW."""
    if_not_exists = reader.accept_if_not_exists(or_replace)
    name = reader.object_name("the view")
    columns = reader.names("a column") if reader.peek() == "(" else ()
    if reader.accept("COMMENT"):
        reader.string("a comment in quotes")
    reader.expect("AS")
    query = reader.query()
    if query.parameters:
        first = min(reader.parameters)
        raise ProgrammingError(
            "a view can't have parameters",
            hint="write the value as a literal",
            position=Position.at(reader.sql, first),
        )
    return CreateView(
        sql=reader.sql,
        position=position,
        name=name,
        columns=columns,
        query=query,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
        temporary=temporary,
    )
