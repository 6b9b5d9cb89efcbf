"""The rows about schemas, types, functions, roles, databases, settings and the session."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runnel.base.schemas import CATALOG, catalog_and_schema
from runnel.planner.bind.pg_catalog.objects import (
    OWNER,
    OWNER_OID,
    PG_CATALOG,
    Objects,
    numbered,
)
from runnel.planner.bind.pg_catalog.relations import fields_of
from runnel.planner.bind.pg_catalog.types import all_types, named_type
from runnel.planner.bind.tables.information_schema import Row

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder

UTF8 = 6
"""The number of the encoding UTF8 in PostgreSQL."""
_OWN_FAMILIES = ("Python functions", "CREATE MACRO")
_KINDS = {"aggregate": "a", "window": "w"}


def namespaces(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_namespace"""
    return [
        (objects.oids[f"schema {key}"], catalog_and_schema(key)[1], OWNER_OID, None)
        for key in objects.schema_keys
    ]


def types(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_type"""
    relations = list(objects.relations.values())
    used = (kind for relation in relations for _, kind in fields_of(binder, relation))
    return [
        (
            item.oid,
            item.name,
            objects.oids[f"schema {PG_CATALOG}"],
            OWNER_OID,
            item.length,
            item.length in (1, 2, 4, 8),
            "p" if item.category == "P" else "b",
            item.category,
            item.name in ("bool", "text", "float8", "timestamptz", "interval", "oid"),
            True,
            ",",
            0,
            item.element,
            item.array,
            *(False, 0, -1, 0),
            100 if item.category == "S" else 0,
            None,
        )
        for item in all_types(used).values()
    ]


def functions(rows: Sequence[Row]) -> list[Row]:
    """pg_proc"""
    keys = [f"function {name} {kind} {arguments}" for _, _, name, kind, arguments, _, _ in rows]
    oids = numbered(keys)
    found = []
    for key, (_, _, name, kind, arguments, result, family) in zip(keys, rows, strict=True):
        words = [word for word in arguments.replace("[", "").replace("]", "").split(",") if word]
        is_own, is_macro = family in _OWN_FAMILIES, kind in ("macro", "table macro")
        returned = None if is_macro else named_type(result.split(" ")[0])
        found.append(
            (
                oids[key],
                name.lower(),
                2200 if is_own else 11,
                OWNER_OID,
                14 if is_macro else 12,
                _KINDS.get(kind, "f"),
                kind in ("table", "table macro"),
                "v",
                len(words),
                0 if returned is None else returned.oid,
                result if is_macro else name.lower(),
                arguments,
                None if is_macro else result,
            )
        )
    return found


def roles(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_roles: the owner of the connection."""
    return [
        (OWNER_OID, OWNER, True, True, True, True, True, False, -1, "********", None, True, None)
    ]


def users(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_user: the owner of the connection."""
    return [(OWNER, OWNER_OID, True, True, False, True, "********", None, None)]


def databases(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_database: the own catalog, and the databases of ATTACH."""
    return [
        (
            objects.oids[f"database {name}"],
            name,
            OWNER_OID,
            UTF8,
            "c",
            False,
            True,
            -1,
            *("C", "C", None, None, None),
        )
        for name in objects.databases
    ]


def settings(rows: Sequence[Row]) -> list[Row]:
    """pg_settings"""
    return [
        (
            *(name, value, None, "Runnel" if scope != "postgresql" else "PostgreSQL"),
            *(meaning, None, "user" if scope == "session" else "internal"),
            "string",
            "default" if value == default else "session",
            *(None, None, None, default, default, None, None, False),
        )
        for name, value, default, meaning, scope in rows
    ]


def methods(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_am"""
    names = (("heap", "t"), ("btree", "i"), ("hash", "i"))
    return [(objects.oids[f"access {name}"], name, f"{name}handler", kind) for name, kind in names]


def collations(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_collation: texts are compared by code points."""
    return [
        (oid, name, 11, OWNER_OID, provider, True, -1, "C", "C", None, None, None)
        for oid, name, provider in ((100, "default", "d"), (950, "C", "c"))
    ]


def languages(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_language"""
    return [
        (oid, name, OWNER_OID, False, True)
        for oid, name in ((12, "internal"), (14, "sql"), (16, "python"))
    ]


def tablespaces(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_tablespace"""
    return [(1663, "pg_default", OWNER_OID, None, None)]


def activity(objects: Objects, binder: StatementBinder) -> list[Row]:
    """pg_stat_activity: the session that reads it."""
    database = objects.oids[f"database {CATALOG}"]
    return [(database, CATALOG, os.getpid(), OWNER_OID, OWNER, "", "active", binder.sql)]


def nothing(objects: Objects, binder: StatementBinder) -> list[Row]:
    """The rows of a table about what does not exist here."""
    return []
