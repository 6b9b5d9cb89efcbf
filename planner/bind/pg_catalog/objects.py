"""The objects of the catalog with the numbers that PostgreSQL calls oids.

A number is derived from the kind and the name of an object, so it is the same in every statement
and in every session until the object is renamed or dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from zlib import crc32

from runnel.base.frozen import frozen
from runnel.base.schemas import CATALOG, INFORMATION_SCHEMA, PUBLIC, VIEW_TYPE, local_name
from runnel.catalog import (
    CatalogObject,
    Index,
    Mapping,
    NamedText,
    Snapshot,
    View,
    visible_columns,
)
from runnel.planner.bind.system_views.constraints import Constraint, constraints_of
from runnel.planner.bind.system_views.duckdb import index_text
from runnel.planner.explain.ddl import quoted
from runnel.planner.parse.session.sequences import SEQUENCE

OWNER = CATALOG
OWNER_OID = 10
"""The one role, with the number of PostgreSQL's first role."""
PG_CATALOG = "pg_catalog"
SYSTEM_SCHEMAS = (PG_CATALOG, INFORMATION_SCHEMA)
_FIRST = 16384
"""The smallest number of an object of a user, as in PostgreSQL."""
_RANGE = 2**31 - _FIRST
_KNOWN = {
    f"schema {PG_CATALOG}": 11,
    "schema ": 2200,
    f"schema {INFORMATION_SCHEMA}": 13000,
    "relation pg_catalog.pg_attrdef": 2604,
    "relation pg_catalog.pg_attribute": 1249,
    "relation pg_catalog.pg_class": 1259,
    "relation pg_catalog.pg_constraint": 2606,
    "relation pg_catalog.pg_database": 1262,
    "relation pg_catalog.pg_description": 2609,
    "relation pg_catalog.pg_index": 2610,
    "relation pg_catalog.pg_namespace": 2615,
    "relation pg_catalog.pg_proc": 1255,
    "relation pg_catalog.pg_type": 1247,
    "access heap": 2,
    "access btree": 403,
    "access hash": 405,
    "database runnel": 5,
}
"""The numbers that PostgreSQL has for objects of its own."""


def numbered(keys: Iterable[str]) -> dict[str, int]:
    """A number for each key. Equal keys have equal numbers, different keys different ones; the
    order of the keys does not matter."""
    found: dict[str, int] = {}
    taken: set[int] = set()
    for key in sorted(set(keys)):
        number = _KNOWN.get(key) or _FIRST + crc32(key.encode()) % _RANGE
        while number in taken:  # two keys with one checksum
            number = _FIRST + (number + 1 - _FIRST) % _RANGE
        taken.add(number)
        found[key] = number
    return found


@frozen
class PgRelation:
    """A row of pg_class.

    key: identifies it among all objects.
    oid: its number.
    name: its name, without the schema.
    schema: the key of its schema; "pg_catalog" or "information_schema" for tables of the catalog.
    kind: "r" (table), "v" (view), "m" (materialized view), "i" (index) or "S" (sequence), as in
        pg_class.relkind.
    item: the table or the view; of an index, its table; None for sequences and tables of the
        catalog.
    sequence: the sequence; None for other relations.
    """

    key: str
    oid: int
    name: str
    schema: str
    kind: str
    item: CatalogObject | None = None
    sequence: NamedText | None = None


@frozen
class PgIndex:
    """A row of pg_index: an index, or the index of a key.

    relation: the index.
    table: the table of the index.
    numbers: the numbers of its columns, from 1; 0 for an expression.
    columns: the columns and expressions as SQL.
    is_unique, is_primary: of a UNIQUE index or key; of the primary key.
    text: the statement that creates it.
    method: "btree" or "hash".
    """

    relation: PgRelation
    table: PgRelation
    numbers: tuple[int, ...]
    columns: tuple[str, ...]
    is_unique: bool
    is_primary: bool
    text: str
    method: str


@frozen
class PgConstraint:
    """A row of pg_constraint.

    oid: its number.
    name: the name that PostgreSQL derives: t_pkey, t_a_key, t_a_check, t_a_fkey.
    kind: "p", "u", "c" or "f", as in pg_constraint.contype.
    table: the table.
    numbers: the numbers of its columns, from 1.
    text: the constraint as SQL.
    index: number of the index of a key, or of the key to which it refers; 0 for CHECK.
    target: of a foreign key, the table to which it refers.
    target_numbers: the numbers of the columns to which it refers.
    """

    oid: int
    name: str
    kind: str
    table: PgRelation
    numbers: tuple[int, ...]
    text: str
    index: int = 0
    target: PgRelation | None = None
    target_numbers: tuple[int, ...] = ()


_KINDS = {"PRIMARY KEY": "p", "UNIQUE": "u", "CHECK": "c", "FOREIGN KEY": "f"}
_ENDS = {"p": "pkey", "u": "key", "c": "check", "f": "fkey"}


class Objects:
    """The numbered objects of a snapshot. `system`: schema and name of the catalog's tables."""

    def __init__(self, snapshot: Snapshot, system: Iterable[tuple[str, str]]) -> None:
        self.snapshot = snapshot
        self._system = tuple(system)

    @cached_property
    def oids(self) -> dict[str, int]:
        """The numbers of all objects, by key."""
        snapshot = self.snapshot
        keys = [f"schema {key}" for key in self.schema_keys]
        keys += [f"relation {schema}.{name}" for schema, name in self._system]
        keys += [f"relation {item.name.lower()}" for item in snapshot]
        keys += [f"relation sequence {item.name.lower()}" for item in self._sequences]
        keys += [f"relation index {index.name.lower()}" for index in self._indexes]
        for item, constraint, name in self._constraints:
            keys.append(f"constraint {item.name.lower()} {name}")
            if constraint.kind in ("PRIMARY KEY", "UNIQUE"):
                keys.append(f"relation key {item.name.lower()} {name}")
        keys += [f"database {name}" for name in self.databases]
        return numbered([*keys, "access heap", "access btree", "access hash"])

    @cached_property
    def schema_keys(self) -> list[str]:
        """The keys of the schemas: of the catalog, public as "", and further ones by name."""
        return [*SYSTEM_SCHEMAS, "", *sorted(set(self.snapshot.schemas.values()) - {""})]

    @property
    def databases(self) -> list[str]:
        """The own catalog, and the databases of ATTACH."""
        return [CATALOG, *(item.name for item in self.snapshot.databases)]

    @property
    def _sequences(self) -> list[NamedText]:
        found = [item for item in self.snapshot.definitions.values() if item.kind == SEQUENCE]
        return sorted(found, key=lambda item: item.name.lower())

    @property
    def _indexes(self) -> list[Index]:
        return sorted(self.snapshot.indexes.values(), key=lambda index: index.name.lower())

    @cached_property
    def _constraints(self) -> list[tuple[CatalogObject, Constraint, str]]:
        """The constraints but NOT NULL, each with its table and its name in PostgreSQL."""
        found: list[tuple[CatalogObject, Constraint, str]] = []
        for item in self.snapshot:
            names: set[str] = set()
            for constraint in constraints_of(item):
                kind = _KINDS.get(constraint.kind)
                if kind is None:
                    continue
                middle = () if kind == "p" else constraint.columns
                words = (local_name(item.name, item.schema), *middle, _ENDS[kind])
                name, number = "_".join(words), 0
                while name in names:  # a second one of the same columns
                    number += 1
                    name = "_".join(words) + str(number)
                names.add(name)
                found.append((item, constraint, name))
        return found

    @cached_property
    def relations(self) -> dict[int, PgRelation]:
        """All relations, by their numbers."""
        found = [*self._stored(), *(index.relation for index in self.indexes)]
        return {relation.oid: relation for relation in found}

    def _stored(self) -> Iterator[PgRelation]:
        """The relations but indexes."""
        for schema, name in self._system:
            yield self._relation(f"{schema}.{name}", name, schema, "v")
        for item in self.snapshot:
            yield self.of_item(item)
        for sequence in self._sequences:
            relation = self._relation(f"sequence {sequence.name.lower()}", sequence.name, "", "S")
            yield replace(relation, sequence=sequence)

    def _relation(self, key: str, name: str, schema: str, kind: str) -> PgRelation:
        full = f"relation {key}"
        return PgRelation(full, self.oids[full], name, schema.lower(), kind)

    def of_item(self, item: CatalogObject) -> PgRelation:
        """The relation of a table or a view."""
        kind = "v" if isinstance(item, View) else "m" if is_maintained(item) else "r"
        name = local_name(item.name, item.schema)
        return replace(self._relation(item.name.lower(), name, item.schema, kind), item=item)

    @cached_property
    def indexes(self) -> list[PgIndex]:
        """The indexes, and the indexes of keys."""
        found = []
        for index in self._indexes:
            item = self.snapshot.objects.get(index.table_name.lower())
            if item is None or isinstance(item, View):
                continue
            table = self.of_item(item)
            is_own = isinstance(item, Mapping) and item.definition is not None
            name = local_name(index.name, item.schema) if is_own else index.name
            relation = self._relation(f"index {index.name.lower()}", name, item.schema, "i")
            numbers = numbers_of(item, index.columns)
            texts = zip(numbers, index.columns, strict=True)
            columns = tuple(in_text(text) if n else f"({text})" for n, text in texts)
            is_unique = index.kind == "unique"
            text = _index_text(relation, table, columns, is_unique=is_unique)
            found.append(
                PgIndex(
                    relation=replace(relation, item=item),
                    table=table,
                    numbers=numbers,
                    columns=columns,
                    is_unique=is_unique,
                    is_primary=False,
                    text=text if is_own else index_text(self.snapshot, index),
                    method="hash" if index.kind == "hash" else "btree",
                )
            )
        return found + [self._key_index(*found) for found in self._constraints if _is_key(found[1])]

    def _key_index(self, item: CatalogObject, key: Constraint, name: str) -> PgIndex:
        relation = self._relation(f"key {item.name.lower()} {name}", name, item.schema, "i")
        table = self.of_item(item)
        columns = tuple(map(in_text, key.columns))
        return PgIndex(
            relation=replace(relation, item=item),
            table=table,
            numbers=numbers_of(item, key.columns),
            columns=columns,
            is_unique=True,
            is_primary=key.kind == "PRIMARY KEY",
            text=_index_text(relation, table, columns, is_unique=True),
            method="btree",
        )

    @cached_property
    def constraints(self) -> list[PgConstraint]:
        """The constraints but NOT NULL."""
        return [self._constraint(*found) for found in self._constraints]

    def _constraint(self, item: CatalogObject, constraint: Constraint, name: str) -> PgConstraint:
        found = PgConstraint(
            oid=self.oids[f"constraint {item.name.lower()} {name}"],
            name=name,
            kind=_KINDS[constraint.kind],
            table=self.of_item(item),
            numbers=numbers_of(item, constraint.columns),
            text=_text(constraint),
        )
        if _is_key(constraint):
            return replace(found, index=self.oids[f"relation key {item.name.lower()} {name}"])
        foreign = constraint.foreign
        other = None if foreign is None else self.snapshot.objects.get(foreign.table.lower())
        if foreign is None or other is None:
            return found
        names = {column.lower() for column in foreign.referenced}
        key = next(
            (
                f"relation key {other.name.lower()} {of_key}"
                for table, key, of_key in self._constraints
                if table is other and _is_key(key) and {c.lower() for c in key.columns} == names
            ),
            "",
        )
        return replace(
            found,
            index=self.oids.get(key, 0),
            target=self.of_item(other),
            target_numbers=numbers_of(other, foreign.referenced),
        )

    def find(self, name: str) -> PgRelation | None:
        """The relation of a name in lower case, which may be qualified, as the session looks names
        up."""
        schema, dot, last = name.rpartition(".")
        item = self.snapshot.find(name)
        if item is not None and not (dot and schema == PG_CATALOG):
            return self.of_item(item)
        names = {last: self.path} if not dot else {last: (_key_of(schema),)}
        for relation in self.relations.values():
            if relation.name.lower() in names and relation.schema in names[relation.name.lower()]:
                return relation
        return None

    @property
    def path(self) -> tuple[str, ...]:
        """The keys of the schemas in which unqualified names are looked up."""
        return (*(self.snapshot.path or ("",)), PG_CATALOG)

    def is_visible(self, relation: PgRelation) -> bool:
        """Whether the session finds a relation by its name without a schema."""
        if relation.item is not None and relation.kind != "i":
            return self.snapshot.find(relation.name) is relation.item
        return relation.schema in self.path


def is_maintained(item: CatalogObject) -> bool:
    """Whether it is a materialized view."""
    return isinstance(item, Mapping) and item.connector == VIEW_TYPE


def query_text(item: CatalogObject) -> str | None:
    """The query of a view, and of a materialized one; None of tables."""
    if isinstance(item, View):
        return item.sql
    if isinstance(item, Mapping) and is_maintained(item):
        return re.split(r"\bAS\b\s*", item.options["text"], maxsplit=1, flags=re.IGNORECASE)[-1]
    return None


def _key_of(schema: str) -> str:
    return "" if schema in ("public", "main", "runnel.public") else schema


def _is_key(constraint: Constraint) -> bool:
    return constraint.kind in ("PRIMARY KEY", "UNIQUE")


def numbers_of(item: CatalogObject, columns: Iterable[str]) -> tuple[int, ...]:
    """The numbers of columns of a table, from 1; 0 for a text that is no column."""
    if isinstance(item, View):
        return ()
    names = [column.name.lower() for column in visible_columns(item.table)]
    numbers = {name: number for number, name in enumerate(names, 1)}
    return tuple(numbers.get(column.lower(), 0) for column in columns)


def _index_text(
    index: PgRelation, table: PgRelation, columns: tuple[str, ...], *, is_unique: bool
) -> str:
    """The statement that creates an index, as pg_get_indexdef shows it."""
    *_, schema = (table.schema or PUBLIC).split(".")
    unique = "UNIQUE " if is_unique else ""
    on = f"{in_text(schema)}.{in_text(table.name)}"
    return f"CREATE {unique}INDEX {in_text(index.name)} ON {on} USING btree ({', '.join(columns)})"


def _text(constraint: Constraint) -> str:
    """A constraint as pg_get_constraintdef shows it, with names in quotes where they need them."""
    columns = ", ".join(map(in_text, constraint.columns))
    if constraint.foreign is not None:
        foreign = constraint.foreign
        others = ", ".join(map(in_text, foreign.referenced))
        table = ".".join(map(in_text, foreign.table.split(".")))
        return f"FOREIGN KEY ({columns}) REFERENCES {table}({others})"
    if constraint.kind == "CHECK":
        return f"CHECK (({constraint.condition}))"
    return f"{constraint.kind} ({columns})"


def in_text(name: str) -> str:
    """A name as PostgreSQL shows it: in quotes only if it is no plain word in lower case."""
    is_plain = name.isascii() and name.isidentifier() and name == name.lower()
    return name if is_plain else quoted(name)
