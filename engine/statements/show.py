"""SHOW and SET: the catalog, jobs, cached plans, and settings."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from runnel.base.foreign_settings import (
    SHOWN,
    WITHOUT_LIMIT,
    has_no_effect,
    hint_after_change,
    hint_without_effect,
    is_fixed,
    is_of_threads,
    refused_hint,
)
from runnel.base.schemas import VIEW_TYPE
from runnel.catalog import Mapping, TableColumn, visible_columns
from runnel.connector import DataConnector
from runnel.errors import Error, NotSupportedError, ProgrammingError, internal
from runnel.planner.bind.tables.described import ALL_TABLES, DESCRIPTION
from runnel.planner.parse.syntax import SetOption
from runnel.planner.plans import ShowPlan
from runnel.relation.nodes import Field
from runnel.results.rows import Result, Row
from runnel.settings import SETTINGS, find
from runnel.sqltypes import BIGINT, JSON, VARCHAR
from runnel.statements.call import StatementCall
from runnel.statements.data_connections import data_connector
from runnel.statements.functions import function_rows, own_rows
from runnel.statements.session_tables import plan_rows, setting_rows

if TYPE_CHECKING:
    from runnel.session.session import Session

logger = logging.getLogger("runnel.settings")


def run_show(session: Session, plan: ShowPlan, call: StatementCall) -> Result:
    """The requested objects, as they are now."""
    found = _found(session, plan)
    if plan.like is None:
        return found
    rows = [row for row in found.some(found.total) if plan.like.matches(row[0])]
    return Result(found.fields, rows)


def _found(session: Session, plan: ShowPlan) -> Result:
    if plan.what == "setting":
        shown = SHOWN.get((plan.name or "").lower())
        if shown is not None:
            return Result((Field((plan.name or "").lower(), VARCHAR),), [shown[:1]])
        setting = find(plan.name or "")
        return Result((Field(setting.name, VARCHAR),), [(str(session.settings.get(setting.name)),)])
    if plan.what == "resources":
        return _resources(session, plan.name or "")
    if plan.what == "columns":
        return Result(_texts("column_name", "data_type", "is_hidden", "watermark"), list(plan.rows))
    if plan.what == "description":
        return Result(DESCRIPTION, list(plan.rows))
    if plan.what == "all tables":
        return Result(ALL_TABLES, list(plan.rows))
    if plan.what == "views":
        return Result(_texts("name", "query", "columns"), list(plan.rows))
    if plan.what == "plans":
        return _plans(session)
    if plan.what == "partitions":
        return _partitions(session, plan.name or "")
    show = _SHOWS.get(plan.what)
    if show is None:
        raise internal(f"no SHOW {plan.what.upper()}")
    return show(session)


def run_set(session: Session, statement: SetOption, call: StatementCall) -> int:
    """Changes a setting: of the session or of the database, by the scope of the setting."""
    session.caller.require_owner("the settings of a server")
    name, value, access = statement.name.text, statement.value, session.caller.access
    if name.upper() == "ALL" and value is None:
        for setting in SETTINGS:
            if not setting.at_start:
                session.set(setting.name, None)
        return -1
    if is_fixed(name, value):
        return -1
    refused = refused_hint(name)
    if refused is not None:
        raise NotSupportedError(
            f"SET {name} = {value} is not supported",
            hint=refused,
            position=statement.name.position,
        )
    if has_no_effect(name) or is_of_threads(name):
        hint = hint_without_effect(name)
        if hint and value is not None:
            logger.warning("SET %s has no effect: %s", name, hint)
        return -1
    if name.lower() in WITHOUT_LIMIT and not value:
        return -1
    try:
        if access is not None and name.lower() == "temp_directory" and value:
            access.resolve(str(value))
        session.set(name, value)
        hint = hint_after_change(name)
        if hint and value is not None:
            logger.warning("SET %s: %s", name, hint)
    except Error as error:
        error.position = error.position or statement.name.position
        raise
    return -1


def _mappings(session: Session) -> Result:
    rows: list[Row] = [
        (
            item.name,
            item.connector,
            item.external_name,
            ", ".join(f"{c.name} {c.type}" for c in _shown(item)),
        )
        for item in session.catalog
        if isinstance(item, Mapping) and item.connector != VIEW_TYPE
    ]
    return Result(_texts("name", "type", "external_name", "columns"), rows)


def _indexes(session: Session) -> Result:
    indexes = sorted(session.catalog.indexes.values(), key=lambda index: index.name.lower())
    rows: list[Row] = [
        (item.name, item.table_name, ", ".join(item.columns), item.kind) for item in indexes
    ]
    return Result(_texts("name", "mapping", "columns", "type"), rows)


def _settings(session: Session) -> Result:
    rows: list[Row] = [row[:4] for row in setting_rows(session)]
    return Result(_texts("name", "value", "default", "meaning"), rows)


def _snapshots(session: Session) -> Result:
    from runnel.statements.jobs.show import show_snapshots

    return show_snapshots(session)


def _materialized_views(session: Session) -> Result:
    from runnel.statements.views.show import show_views

    return show_views(session)


def _plans(session: Session) -> Result:
    """The cached plans, the last used first; then the statistics of the cache, with the numbers in
    `uses`. The texts of the owner's statements are for the owner: literals in them may be
    secrets."""
    rows: list[Row] = [("plan", *row[:3]) for row in plan_rows(session)]
    counts = session.plans.statistics()
    rows += [
        (name, None, None, getattr(counts, name))
        for name in ("size", "capacity", "hits", "misses", "evictions", "invalidations")
    ]
    return Result((*_texts("kind", "query", "parameter_types"), Field("uses", BIGINT)), rows)


def _shown(mapping: Mapping) -> list[TableColumn]:
    return visible_columns(mapping.table)


def _functions(session: Session) -> Result:
    return Result(
        _texts("name", "kind", "arguments", "result", "family"),
        function_rows(session.catalog.functions.values(), session.catalog.definitions.values()),
    )


def _user_functions(session: Session) -> Result:
    snapshot = session.catalog
    return Result(
        _texts("name", "kind", "arguments", "result", "family"),
        own_rows(snapshot.functions.values(), snapshot.definitions.values()),
    )


def _data_connections(session: Session) -> Result:
    rows: list[Row] = []
    for item in sorted(session.catalog.connections.values(), key=lambda item: item.name.lower()):
        connector = session.connectors.get(item.connector)
        types = connector.resource_types if isinstance(connector, DataConnector) else ()
        rows.append((item.name, item.connector, json.dumps(list(types))))
    return Result((*_texts("name", "connection_type"), Field("resource_types", JSON)), rows)


def _resources(session: Session, name: str) -> Result:
    connection = session.catalog.get_connection(name)
    connector = data_connector(session.connectors, connection.connector)
    return Result(_texts("name", "type"), list(connector.resources(connection.options)))


def _partitions(session: Session, name: str) -> Result:
    """The partitions that have files, as `key=value/key=value`."""
    # Loaded on first use, with the writers of files.
    from runnel.processors.sinks.written_files import WritableFiles

    found = session.catalog.get(name)
    table = found.table if isinstance(found, Mapping) else None
    partitions = table.partitions() if isinstance(table, WritableFiles) else None
    if partitions is None:
        raise ProgrammingError(
            f'"{found.name}" is not partitioned',
            hint="a table of files with PARTITIONED BY is; of others, query the columns: SELECT "
            "DISTINCT c FROM t",
        )
    return Result(_texts("partition name"), [(item,) for item in partitions])


def _texts(*names: str) -> tuple[Field, ...]:
    return tuple(Field(name, VARCHAR) for name in names)


_SHOWS: dict[str, Callable[[Session], Result]] = {
    "mappings": _mappings,
    "materialized views": _materialized_views,
    "functions": _functions,
    "user functions": _user_functions,
    "data connections": _data_connections,
    "indexes": _indexes,
    "snapshots": _snapshots,
    "settings": _settings,
}
