"""The rows about tables, views, indexes and sequences: pg_class, pg_attribute, pg_index,
pg_constraint and others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from runnel.base.schemas import catalog_and_schema
from runnel.catalog import Mapping, View
from runnel.columns.table_definition import IdentityColumn, TableDefinition
from runnel.planner.bind.pg_catalog.objects import (
    OWNER,
    OWNER_OID,
    Objects,
    PgRelation,
    query_text,
)
from runnel.planner.bind.pg_catalog.types import base_types, modifier_of, oid_of
from runnel.planner.bind.tables.described import is_temporary
from runnel.planner.bind.tables.information_schema import (
    Row,
    columns_of,
    comments_of,
    nullable,
)
from runnel.sqltypes import Kind, SqlType

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder

_DEFAULT_COLLATION = 100
_NUMBERS = re.compile(r"START\s+(?:WITH\s+)?(-?\d+)|INCREMENT\s+(?:BY\s+)?(-?\d+)", re.IGNORECASE)


def definition_of(relation: PgRelation) -> TableDefinition | None:
    """The constraints and computed values of a table of CREATE TABLE; None for other relations."""
    item = relation.item
    return item.definition if isinstance(item, Mapping) else None


def fields_of(binder: StatementBinder, relation: PgRelation) -> list[tuple[str, SqlType]]:
    """The columns of a table or a view; () of other relations."""
    if relation.item is None or relation.kind not in ("r", "v", "m"):
        return []
    return [(name, kind) for name, _, kind in columns_of(binder, relation.item)]


def classes(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_class"""
    indexed = {index.table.oid for index in objects.indexes}
    methods = {index.relation.oid: index.method for index in objects.indexes}
    widths = {index.relation.oid: len(index.numbers) for index in objects.indexes}
    checks = [item.table.oid for item in objects.constraints if item.kind == "c"]
    return [
        (
            relation.oid,
            relation.name,
            objects.oids[f"schema {relation.schema}"],
            *(0, 0, OWNER_OID),
            _method(objects, relation, methods),
            *(0, 0, 0, _row_count(relation), 0, 0),
            relation.oid in indexed,
            False,
            "t" if relation.item is not None and is_temporary(relation.item) else "p",
            relation.kind,
            widths.get(relation.oid) or len(fields_of(binder, relation)),
            checks.count(relation.oid),
            relation.kind == "v",
            *(False, False, False, False, True, "n" if relation.kind != "r" else "d", False),
            *(0, None, None, None),
        )
        for relation in objects.relations.values()
    ]


def _method(objects: Objects, relation: PgRelation, methods: dict[int, str]) -> int:
    if relation.kind == "r":
        return objects.oids["access heap"]
    return objects.oids[f"access {methods[relation.oid]}"] if relation.oid in methods else 0


def _row_count(relation: PgRelation) -> float:
    """pg_class.reltuples: the approximate number of rows; -1: unknown."""
    item = relation.item
    if relation.kind not in ("r", "m") or item is None or isinstance(item, View):
        return -1.0
    count = item.table.row_count()
    return -1.0 if count is None else float(count)


def attributes(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_attribute"""
    found = [
        row
        for relation in objects.relations.values()
        for number, (name, kind) in enumerate(fields_of(binder, relation), 1)
        for row in [_attribute(relation, number, name, kind)]
    ]
    for index in objects.indexes:
        fields = fields_of(binder, index.table)
        for at, number in enumerate(index.numbers):
            name, kind = fields[number - 1] if number else ("expr", None)
            found.append(_attribute(index.relation, at + 1, name, kind, is_index=True))
    return found


def _attribute(
    relation: PgRelation, number: int, name: str, kind: SqlType | None, *, is_index: bool = False
) -> Row:
    definition, lower = definition_of(relation), name.lower()
    identity, is_computed, has_default = None, False, False
    if definition is not None and not is_index:
        identity = definition.identities.get(lower)
        is_computed = lower in definition.computed
        has_default = is_computed or (lower in definition.defaults and identity is None)
    is_null = relation.item is None or is_index or nullable(relation.item, name) == "YES"
    oid = 0 if kind is None else oid_of(kind)
    known = base_types().get(oid)
    is_text = kind is not None and kind.kind is Kind.VARCHAR
    return (
        relation.oid,
        name,
        oid,
        known.length if known else -1,
        number,
        -1,
        -1 if kind is None else modifier_of(kind),
        int(kind is not None and kind.kind is Kind.ARRAY),
        *(known is not None and known.length > 0, "i", "p", ""),
        not is_null,
        has_default,
        False,
        _identity(identity),
        "s" if is_computed else "",
        *(False, True, 0, -1),
        _DEFAULT_COLLATION if is_text else 0,
        *(None, None, None),
    )


def _identity(identity: IdentityColumn | None) -> str:
    if identity is None:
        return ""
    return "a" if identity.is_always else "d"


def defaults(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_attrdef: the DEFAULT of each column, and the expressions of computed ones."""
    return [
        (relation.oid + number, relation.oid, number, text)
        for relation in objects.relations.values()
        for number, text in _default_texts(binder, relation)
    ]


def _default_texts(binder: StatementBinder, relation: PgRelation) -> Iterator[tuple[int, str]]:
    definition = definition_of(relation)
    if definition is None or relation.kind != "r":
        return
    for number, (name, _) in enumerate(fields_of(binder, relation), 1):
        lower = name.lower()
        if lower in definition.identities:
            continue
        text = definition.computed.get(lower) or definition.defaults.get(lower)
        if text is not None:
            yield number, text


def indexes(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_index"""
    return [
        (
            index.relation.oid,
            index.table.oid,
            len(index.numbers),
            len(index.numbers),
            index.is_unique,
            False,
            index.is_primary,
            *(False, True, False, True, False, True, True, False),
            list(index.numbers),
            *([0] * len(index.numbers) for _ in range(3)),
            None,
            None,
        )
        for index in objects.indexes
    ]


def constraints(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_constraint"""
    return [
        (
            item.oid,
            item.name,
            objects.oids[f"schema {item.table.schema}"],
            item.kind,
            *(False, False, True),
            item.table.oid,
            0,
            item.index,
            0,
            0 if item.target is None else item.target.oid,
            *(("a", "a", "s") if item.kind == "f" else (" ", " ", " ")),
            *(True, 0, True),
            list(item.numbers),
            list(item.target_numbers) if item.kind == "f" else None,
            item.text if item.kind == "c" else None,
        )
        for item in objects.constraints
    ]


def descriptions(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_description: the comments on tables, views and their columns."""
    found: list[Row] = []
    pg_class = objects.oids["relation pg_catalog.pg_class"]
    for relation in objects.relations.values():
        if relation.item is None or relation.kind not in ("r", "v", "m"):
            continue
        comments = comments_of(relation.item)
        names = ["", *(name.lower() for name, _ in fields_of(binder, relation))]
        found += [
            (relation.oid, pg_class, number, comments[name])
            for number, name in enumerate(names)
            if name in comments
        ]
    return found


def sequences(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_sequence"""
    return [
        (relation.oid, 20, start, increment, 2**63 - 1, 1, 1, False)
        for relation, start, increment in _numbers(objects)
    ]


def listed_sequences(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_sequences: the last number is unknown here."""
    return [
        (
            *_schema_and_name(relation),
            OWNER,
            "bigint",
            start,
            1,
            2**63 - 1,
            increment,
            False,
            1,
            None,
        )
        for relation, start, increment in _numbers(objects)
    ]


def _numbers(objects: Objects) -> Iterator[tuple[PgRelation, int, int]]:
    """The sequences, each with its first number and its increment."""
    for relation in objects.relations.values():
        if relation.sequence is not None:
            start, increment = None, 1
            for first, step in _NUMBERS.findall(relation.sequence.text):
                start, increment = int(first) if first else start, int(step) if step else increment
            yield relation, (1 if increment > 0 else -1) if start is None else start, increment


def owned_sequences(objects: Objects) -> Iterator[tuple[PgRelation, PgRelation, int, str]]:
    """The sequences of SERIAL and IDENTITY: the sequence, the table, the number of the column, and
    its name in lower case."""
    by_name = {
        relation.sequence.name.lower(): relation
        for relation in objects.relations.values()
        if relation.sequence is not None
    }
    for relation in objects.relations.values():
        definition = definition_of(relation)
        if definition is None or relation.kind != "r" or not isinstance(relation.item, Mapping):
            continue
        names = [column.name.lower() for column in relation.item.table.columns if not column.hidden]
        for column, identity in definition.identities.items():
            sequence = by_name.get(identity.sequence.lower())
            if sequence is not None:
                yield sequence, relation, names.index(column) + 1, column


def dependencies(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_depend: the sequences that belong to columns."""
    pg_class = objects.oids["relation pg_catalog.pg_class"]
    return [
        (pg_class, sequence.oid, 0, pg_class, table.oid, number, "i")
        for sequence, table, number, _ in owned_sequences(objects)
    ]


def listed_tables(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_tables: without the tables of the catalog."""
    indexed = {index.table.oid for index in objects.indexes}
    return [
        (*_schema_and_name(relation), OWNER, None, relation.oid in indexed, False, False, False)
        for relation in objects.relations.values()
        if relation.kind == "r"
    ]


def listed_views(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_views: without the tables of the catalog."""
    return [
        (*_schema_and_name(relation), OWNER, relation.item.sql)
        for relation in objects.relations.values()
        if isinstance(relation.item, View)
    ]


def maintained_views(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_matviews"""
    return [
        (*_schema_and_name(relation), OWNER, None, False, True, query_text(relation.item))
        for relation in objects.relations.values()
        if relation.kind == "m" and relation.item is not None
    ]


def listed_indexes(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_indexes"""
    found = [
        (*_schema_and_name(index.table), index.relation.name, None, index.text)
        for index in objects.indexes
    ]
    return sorted(found, key=lambda row: (row[1].lower(), row[2].lower()))


def statistics(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_stat_user_tables: the approximate numbers of rows."""
    return [
        (relation.oid, *_schema_and_name(relation), max(int(_row_count(relation)), 0))
        for relation in objects.relations.values()
        if relation.kind == "r"
    ]


def _schema_and_name(relation: PgRelation) -> tuple[str, str]:
    """The schema and the name of a relation."""
    return catalog_and_schema(relation.schema)[1], relation.name
