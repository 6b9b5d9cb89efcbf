"""The names of schemas, and the names of objects in them.

A connection has its own catalog, whose schemas are `public` and the ones of CREATE SCHEMA, and the
databases of ATTACH. The *key* of a schema is how it begins names in the catalog: "" for
`public`, `s` for a schema of the own catalog, `d.main` and `d.s` for schemas of the database `d`.
The name of an object in another schema than `public` has the key before it: `s.t`, `d.main.t`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runnel.errors import (
    ErrorCode,
    InvalidSchemaName,
    Position,
    ProgrammingError,
    as_written,
    suggest,
)

CATALOG = "runnel"
PUBLIC = "public"
MAIN = "main"
INFORMATION_SCHEMA = "information_schema"
ONLY_SCHEMAS = (PUBLIC, MAIN, "default_database")
"""The names of the schema public: here, in DuckDB and in Flink."""
OWN_CATALOGS = (CATALOG, "memory", "default_catalog")
"""The names of the own catalog: here, of a database in memory in DuckDB, and in Flink."""
DEFAULT_SCHEMAS = ("default", "default_database")
"""Further names of the schema main of an attached database, as Flink calls it."""
TEMPORARY = "temp"
MEMORY = ":memory:"
"""The path of a database of ATTACH in memory."""

SCHEMA_KIND = "schema"
DATABASE_KIND = "database"
CATALOG_KIND = "catalog"
"""The kinds of the catalog's definitions that are schemas, by key, databases of ATTACH, and further
names of the own catalog: a DuckDB file's, as DuckDB calls it."""

VIEW_KIND = "materialized view"
"""The kind of a materialized view in words."""
VIEW_TYPE = "MaterializedView"
"""The connector of the mappings that materialized views are in the catalog."""


def database_of(key: str) -> str:
    """The database of ATTACH that has a schema; "": the own catalog."""
    return key.partition(".")[0] if "." in key else ""


def catalog_and_schema(key: str) -> tuple[str, str]:
    """The catalog and the schema of a key, as information_schema shows them."""
    database, dot, schema = key.partition(".")
    return (database, schema) if dot else (CATALOG, key or PUBLIC)


def is_within(key: str, catalog: str, schema: str) -> bool:
    """Whether the schema of a key, or INFORMATION_SCHEMA, is the one that qualifies a name."""
    found, name = catalog_and_schema(key)
    catalog, schema = catalog.lower(), schema.lower()
    is_same = name.lower() == schema or (name == PUBLIC and schema in ONLY_SCHEMAS)
    if catalog:
        is_own = found == CATALOG and catalog in OWN_CATALOGS
        return is_same and (is_own or catalog == found.lower())
    return is_same or (found.lower() == schema and name == MAIN)


def local_name(name: str, key: str) -> str:
    """The name of an object without its schema."""
    return name[len(key) + 1 :] if key else name


def schema_key(
    known: Mapping[str, str],
    path: tuple[str, ...],
    qualifiers: tuple[str, str],
    position: Position | None = None,
) -> str:
    """The key of the schema that a catalog and a schema name; INFORMATION_SCHEMA for that schema.
    ProgrammingError if it does not exist.

    known: the keys of the schemas besides public, by the names that they have, in lower case.
    path: the keys of the schemas in which unqualified names are looked up.
    qualifiers: the catalog, or "", and the schema.
    """
    catalog, schema = (item.lower() for item in qualifiers)
    if catalog and catalog not in OWN_CATALOGS:
        if schema in DEFAULT_SCHEMAS and f"{catalog}.{schema}" not in known:
            schema = MAIN
        if f"{catalog}.{schema}" in known:
            return known[f"{catalog}.{schema}"]
        raise _no_schema(known, catalog, schema, position)
    database = database_of(path[0]) if path and not catalog else ""
    if database and f"{database}.{schema}" in known:
        return f"{database}.{schema}"
    if schema in ONLY_SCHEMAS:
        return ""
    if schema in known or schema == INFORMATION_SCHEMA:
        return schema
    if not catalog and f"{schema}.{MAIN}" in known:
        return known[f"{schema}.{MAIN}"]
    raise _no_schema(known, "", schema, position)


def _no_schema(
    known: Mapping[str, str], catalog: str, schema: str, position: Position | None
) -> ProgrammingError:
    databases = sorted({database_of(key) for key in known} - {""})
    if catalog and catalog not in databases:
        listed = f"the catalogs are {', '.join([CATALOG, *databases])}"
        hint = (
            suggest(catalog, databases, listed) if databases else f'the only catalog is "{CATALOG}"'
        )
        return InvalidSchemaName(
            f'catalog "{catalog}" does not exist', hint=hint, position=position
        )
    names = [catalog_and_schema(key)[1] for key in known if database_of(key) == catalog]
    create = f"{catalog}.{as_written(schema)}" if catalog else as_written(schema)
    remedy = (
        "a schema is made with CREATE SCHEMA, a database is opened with ATTACH: "
        f"CREATE SCHEMA {create}"
    )
    return InvalidSchemaName(
        f'schema "{schema}" does not exist',
        code=ErrorCode.OBJECT_NOT_FOUND,
        hint=suggest(schema, names, remedy),
        position=position,
    )


def candidates(known: Mapping[str, str], path: tuple[str, ...], name: str) -> Iterator[str]:
    """The names in the catalog that a name in lower case, which may be qualified, can stand for;
    the first one that exists is the object."""
    first, *rest = name.split(".", 2)
    if len(rest) == 2:
        with_catalog = _found(known, path, (first, rest[0]))
        if with_catalog is not None:
            yield _joined(with_catalog, rest[1])
    if rest:
        key = _found(known, path, ("", first))
        if key is not None:
            yield _joined(key, ".".join(rest))
    for key in path:
        yield _joined(key, name)
    yield name


def _found(
    known: Mapping[str, str], path: tuple[str, ...], qualifiers: tuple[str, str]
) -> str | None:
    try:
        return schema_key(known, path, qualifiers)
    except ProgrammingError:
        return None


def _joined(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def new_key(
    known: Mapping[str, str],
    path: tuple[str, ...],
    qualifiers: tuple[str, ...],
    position: Position | None,
    *,
    is_temporary: bool,
) -> str:
    """The key of the schema of a new object; ProgrammingError if it does not exist."""
    key = "" if is_temporary or not path else path[0]
    if qualifiers and qualifiers != (TEMPORARY,):
        key = schema_key(known, path, ("".join(qualifiers[:-1]), qualifiers[-1]), position)
    elif key and key not in known:
        raise InvalidSchemaName(f'schema "{key}" does not exist', hint="write USE public")
    if key and is_temporary:
        raise ProgrammingError(
            f'a temporary object can\'t be in schema "{qualifiers[-1]}"',
            hint="leave the schema out",
            position=position,
        )
    if key == INFORMATION_SCHEMA:
        raise InvalidSchemaName(
            f'schema "{key}" can only be queried',
            hint="its tables show the catalog, which CREATE and DROP change",
            position=position,
        )
    return key


def full_name(known: Mapping[str, str], key: str, local: str, position: Position | None) -> str:
    """The name in the catalog of a new object of a schema; ProgrammingError for a quoted name with
    a dot that would be the name of an object of another schema."""
    first, dot, rest = local.lower().partition(".")
    if dot and not key and (first in known or f"{first}.{rest.partition('.')[0]}" in known):
        raise ProgrammingError(
            f'"{local}" can\'t be the name of an object: "{first}" is a schema or a database',
            hint="take a name without a dot",
            position=position,
        )
    return _joined(key, local)


def remedy(known: Mapping[str, str], name: str) -> str:
    """The hint for an unknown name to which no known name is near."""
    first, dot, _ = name.partition(".")
    schemas = {part for key in known for part in (key, database_of(key))}
    if dot and first.isidentifier() and first.lower() not in (*schemas, *ONLY_SCHEMAS):
        return (
            f'there is no schema "{first}": write CREATE SCHEMA {first}, or '
            f"ATTACH 'file.duckdb' AS {first}"
        )
    return (
        "create it with CREATE TABLE, CREATE VIEW or CREATE MAPPING, "
        "or register it on the connection"
    )
