"""CREATE SCHEMA, DROP SCHEMA, USE, ATTACH and DETACH.

A schema is a definition of the catalog (`schemas.py`). In memory and in a directory it is nothing
else; in a DuckDB file it is a schema of DuckDB as well. An attached database is one of the
connection: it is not stored, and its tables are read again by the next ATTACH.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from runnel.base.schemas import (
    DATABASE_KIND,
    MAIN,
    MEMORY,
    ONLY_SCHEMAS,
    OWN_CATALOGS,
    SCHEMA_KIND,
    database_of,
)
from runnel.catalog import CatalogObject, Mapping, NamedText
from runnel.connectors.duckdb import attached
from runnel.connectors.duckdb.attached import Attachment
from runnel.connectors.duckdb.connector import DuckDBConnector
from runnel.connectors.duckdb.table import DuckDBRelation
from runnel.errors import (
    DuplicateSchema,
    Error,
    ErrorCode,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    suggest,
)
from runnel.planner.parse.session.schemas import (
    Attach,
    CreateSchema,
    Detach,
    DropSchema,
    UseSchemas,
)
from runnel.planner.parse.syntax import Name
from runnel.session.file_objects import opened
from runnel.statements.call import StatementCall
from runnel.statements.definitions import NO_COUNT, check_own, kind_of
from runnel.statements.tables.definitions import drop_objects
from runnel.statements.tables.job_users import check_unused, suspend_users
from runnel.statements.tables.references import check_unreferenced

if TYPE_CHECKING:
    from runnel.session.session import Session

_SQLITE = b"SQLite format 3"


def use_schemas(session: Session, statement: UseSchemas, call: StatementCall) -> int:
    """Sets the search path of the session."""
    keys = tuple(_key_of_path(session, name) for name in statement.names)
    if keys in ((), ("",)):
        keys = ()
    elif session.prepared is None:
        raise NotSupportedError(
            f"{statement.words} is not supported through a server",
            detail="each statement of a client is a session by itself",
            hint="write the schema with the name of the table: s.t",
            position=statement.position,
        )
    session.search_path = keys
    return NO_COUNT


def _key_of_path(session: Session, name: Name) -> str:
    """The key of a schema, or of the schema main of a catalog."""
    known = session.catalog.schemas
    lower = name.text.lower()
    if not name.qualifiers:
        if lower in OWN_CATALOGS:
            return ""
        if f"{lower}.{MAIN}" in known:
            return known[f"{lower}.{MAIN}"]
    catalog = name.qualifiers[0] if name.qualifiers else ""
    key = session.catalog.schema_key(catalog, name.local, name.position)
    if key and key not in known:
        raise NotSupportedError(
            f'"{name}" can\'t be in the search path',
            hint=f"write the schema with the name of the table: {name}.t",
            position=name.position,
        )
    return key


def create_schema(session: Session, statement: CreateSchema, call: StatementCall) -> int:
    """Creates a schema: in the own catalog, or in an attached database."""
    session.check_directory()
    name = statement.name
    with session.definitions:
        snapshot = session.catalog
        catalog = name.qualifiers[0].lower() if name.qualifiers else ""
        database = ""
        if catalog:
            database = database_of(snapshot.schema_key(catalog, MAIN, name.position))
        elif snapshot.path:
            database = database_of(snapshot.path[0])
        local = name.local
        key = f"{database}.{local}" if database else local
        is_public = local.lower() in ONLY_SCHEMAS or (
            local.lower() in OWN_CATALOGS and not database
        )
        if is_public or key.lower() in snapshot.schemas:
            if statement.if_not_exists:
                return NO_COUNT
            raise DuplicateSchema(
                f'schema "{name}" exists already', hint="use IF NOT EXISTS", position=name.position
            )
        _check_name(session, key, name)
        if database or session.own_tables.is_file:
            session.caller.require_no_bounds("schemas of a file")
            attached.create_schema(_connector(session), key.lower())
        made = NamedText(SCHEMA_KIND, key, "", is_temporary=bool(database))
        session.change_catalog(definitions={**snapshot.definitions, made.key: made})
    return NO_COUNT


def _check_name(session: Session, name: str, at: Name) -> None:
    """ProgrammingError for a name that would be ambiguous: it has a dot, or is a database's, or
    begins the name of an object."""
    lower = name.lower()
    is_dotted = "." in at.local or lower in ("information_schema", "pg_catalog", "temp")
    is_database = f"{lower}.{MAIN}" in session.catalog.schemas
    if is_dotted or is_database or any(n.startswith(f"{lower}.") for n in session.catalog.objects):
        raise ProgrammingError(
            f'a schema can\'t be called "{at.local}"',
            hint="take another name",
            position=at.position,
        )


def drop_schema(session: Session, statement: DropSchema, call: StatementCall) -> int:
    """Drops a schema, with CASCADE its tables and views as well."""
    name = statement.name
    catalog = name.qualifiers[0] if name.qualifiers else ""
    try:
        key = session.catalog.schema_key(catalog, name.local, name.position)
    except ProgrammingError:
        if statement.if_exists:
            return NO_COUNT
        raise
    if key not in session.catalog.schemas or key.endswith(f".{MAIN}"):
        raise NotSupportedError(
            f'schema "{name}" can\'t be dropped',
            hint="drop its tables" if not database_of(key) else f"use DETACH {database_of(key)}",
            position=name.position,
        )
    for item in _droppable(session, statement, key):
        suspend_users(session, item.name)
    with session.definitions:
        items = _droppable(session, statement, key)
        drop_objects(session, items)
        if key in _connector(session).schemas:
            attached.drop_schema(_connector(session), key)
        definitions = dict(session.catalog.definitions)
        definitions.pop((SCHEMA_KIND, key), None)
        session.change_catalog(definitions=definitions)
    session.search_path = tuple(item for item in session.search_path if item != key)
    return NO_COUNT


def _droppable(session: Session, statement: DropSchema, key: str) -> list[CatalogObject]:
    """The objects of a schema, all of which the caller may drop with it."""
    items = _objects(session, key)
    if items and not statement.is_cascading:
        raise ProgrammingError(
            f'schema "{statement.name}" is not empty',
            detail=f'it has the {kind_of(items[0])} "{items[0].name}"',
            hint="add CASCADE, which drops its tables and views",
            position=statement.name.position,
        )
    if key in _connector(session).schemas:
        session.caller.require_no_bounds("schemas of a file")
        _connector(session).schemas[key].check_writable(f'schema "{statement.name}"', "dropped")
    for item in items:
        check_own(session, item)
        check_unreferenced(session.catalog, item.name, "dropped", items)
    return items


_RESERVED = ("main", "temp", "system")
"""Names of schemas and catalogs that no attached database has."""


def attach(session: Session, statement: Attach, call: StatementCall) -> int:
    """Opens a database file, and names its tables and views."""
    session.caller.require_no_bounds("attached databases")
    path = statement.path.text
    at = statement.name or statement.path
    name = statement.name.text if statement.name else Path(path).name.partition(".")[0]
    if path == MEMORY and statement.name is None:
        name = "memory"
    _check_file(session, statement)
    if path != MEMORY:
        path = str(Path(path).expanduser().resolve())
    attachment = Attachment(name, path, statement.is_read_only)
    with session.definitions:
        if (DATABASE_KIND, name.lower()) in session.catalog.definitions:
            if statement.if_not_exists:
                return NO_COUNT
            if not statement.or_replace:
                raise ProgrammingError(
                    f'database "{name}" is attached already',
                    hint="use IF NOT EXISTS, OR REPLACE, or another name after AS",
                    position=at.position,
                )
            _replace(session, attachment)
            return NO_COUNT
        if name.lower() in (*OWN_CATALOGS, *_RESERVED):
            raise ProgrammingError(
                f'a database can\'t be called "{name}"',
                hint="the name is reserved: write AS and another name",
                position=at.position,
            )
        if name.lower() in session.catalog.schemas:
            raise DuplicateSchema(
                f'schema "{name}" exists already',
                hint="write AS and another name",
                position=at.position,
            )
        _check_name(session, name, Name(name, at.position))
        _open(session, attachment)
    return NO_COUNT


def _check_file(session: Session, statement: Attach) -> None:
    """An error for a file that is open, or is no DuckDB database."""
    path = statement.path.text
    if "\0" in path:
        raise ProgrammingError(
            "the path of a database file has a NUL character", position=statement.path.position
        )
    file = Path(path).expanduser()
    open_as = {item.text: item.name for item in session.catalog.databases if item.text != MEMORY}
    own = session.path
    if own is not None and Path(own).resolve() in (file.resolve(), file.resolve().parent):
        raise ProgrammingError(
            f'database file "{path}" belongs to the database of this connection',
            hint="its tables have no prefix",
            position=statement.path.position,
        )
    for known, name in open_as.items():
        is_same = Path(known).expanduser().resolve() == file.resolve()
        if is_same and not statement.or_replace and not statement.if_not_exists:
            raise ProgrammingError(
                f'database file "{path}" is attached already, as "{name}"',
                hint=f"use that name, or DETACH {name} first",
                position=statement.path.position,
            )
    if file.is_file():
        with suppress(OSError), file.open("rb") as opened:
            if opened.read(len(_SQLITE)) == _SQLITE:
                raise NotSupportedError(
                    f'"{path}" is a SQLite database, which can\'t be attached',
                    hint="read the tables in Python: con.register('t', pandas.read_sql(…))",
                    position=statement.path.position,
                )


def _replace(session: Session, attachment: Attachment) -> None:
    """Attaches a database under the name of another one, which stays attached after an error."""
    connector = _connector(session)
    lower = attachment.name.lower()
    text = session.catalog.definitions[DATABASE_KIND, lower]
    is_read_only = connector.schemas[f"{lower}.{MAIN}"].is_read_only
    old = Attachment(text.name, text.text, is_read_only)
    is_opened = False
    if attachment.path not in (old.path, MEMORY):
        known = connector.own_tables.kernel.attached
        alias = connector.attach_file(attachment.path, is_read_only=attachment.is_read_only)
        is_opened = alias not in known
    try:
        _detach(session, lower)
        _open(session, attachment)
    except BaseException:
        with suppress(Error):
            if is_opened:
                connector.detach_file(attachment.path)
            if (DATABASE_KIND, lower) not in session.catalog.definitions:
                _open(session, old)
        raise


def _open(session: Session, attachment: Attachment) -> None:
    connector = _connector(session)
    attached.attach(connector, attachment)
    try:
        found = [
            opened(connector, definition, is_temporary=True)
            for definition in attached.definitions(connector, attachment)
        ]
        texts = attached.texts(connector, attachment)
        session.change_catalog(
            put=tuple(found), definitions={**session.catalog.definitions, **texts}
        )
        for index in attached.indexes(connector, attachment):
            session.change_catalog(put_index=index)
    except BaseException:
        with suppress(Error):
            attached.detach(connector, attachment, is_in_use=False)
        raise


def detach(session: Session, statement: Detach, call: StatementCall) -> int:
    """Forgets an attached database, and closes its file."""
    session.caller.require_no_bounds("attached databases")
    name = statement.name.text
    with session.definitions:
        if (DATABASE_KIND, name.lower()) not in session.catalog.definitions:
            if statement.if_exists:
                return NO_COUNT
            names = [item.name for item in session.catalog.databases]
            raise ProgrammingError(
                f'database "{name}" is not attached',
                code=ErrorCode.OBJECT_NOT_FOUND,
                hint=suggest(name, names, "SHOW DATABASES lists the attached databases"),
                position=statement.name.position,
            )
        if any(database_of(key) == name.lower() for key in session.search_path):
            raise ProgrammingError(
                f'database "{name}" is in use',
                hint=f"write USE {OWN_CATALOGS[0]} first",
                position=statement.name.position,
            )
        _detach(session, name)
    return NO_COUNT


def _detach(session: Session, name: str) -> None:
    """Removes the objects of an attached database. Called under the lock of the catalog."""
    lower = name.lower()
    snapshot = session.catalog
    text = snapshot.definitions[DATABASE_KIND, lower]
    items = [item for item in snapshot if database_of(item.schema) == lower]
    for item in items:
        check_own(session, item)
        check_unused(session, item.name, kind_of(item), is_dropped=True)
    connector = _connector(session)
    keys = {(SCHEMA_KIND, key) for key in attached.keys_of(connector, name)}
    aliases = tuple(connector.schemas[key].alias for key in attached.keys_of(connector, name))
    gone = keys | {(DATABASE_KIND, lower)}
    definitions = {k: v for k, v in snapshot.definitions.items() if k not in gone}
    for item in items:
        session.change_catalog(drop=item)
    session.change_catalog(definitions=definitions)
    is_in_use = any(
        isinstance(item, Mapping)
        and isinstance(item.table, DuckDBRelation)
        and item.table.location.qualified.startswith(aliases)
        for item in session.catalog
    )
    try:
        attached.detach(connector, Attachment(text.name, text.text), is_in_use=is_in_use)
    except Exception as error:
        raise OperationalError(
            f'database "{name}" is detached, but its file is still open',
            detail=str(error).partition("\n")[0],
            hint="a running query reads it; it is closed with the connection",
        ) from error


def _objects(session: Session, key: str) -> list[CatalogObject]:
    """The objects of a schema."""
    return [item for item in session.catalog if item.schema.lower() == key]


def _connector(session: Session) -> DuckDBConnector:
    found = session.connectors.get("DuckDB")
    assert isinstance(found, DuckDBConnector)
    return found
