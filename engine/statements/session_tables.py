"""The tables of information_schema whose rows are not in the catalog: jobs, job_metrics, plans,
settings, routines and databases, as the caller of a statement may see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from runnel.base.foreign_settings import SHOWN
from runnel.base.schemas import CATALOG, MAIN, PUBLIC
from runnel.settings import SETTINGS
from runnel.statements.functions import function_rows

if TYPE_CHECKING:
    from runnel.results.rows import Row
    from runnel.session.session import Session


def session_rows(session: Session, name: str) -> list[Row]:
    """The rows of the table of that name, now."""
    return _ROWS[name](session)


def plan_rows(session: Session) -> list[Row]:
    """The cached plans, the last used first. The texts of the owner's statements are for the owner:
    literals in them may be secrets."""
    return [
        (
            entry.key.sql,
            ", ".join(map(str, entry.key.types)),
            entry.uses,
            entry.key.settings.zone,
            entry.key.is_confined,
        )
        for entry in session.plans.entries()
        if session.caller.is_owner or entry.key.is_confined
    ]


def setting_rows(session: Session) -> list[Row]:
    """The settings with their values for this session."""
    return [
        (
            setting.name,
            str(session.settings.get(setting.name)),
            str(setting.default),
            setting.description,
            setting.scope.value,
        )
        for setting in SETTINGS
    ]


def parameter_rows(session: Session) -> list[Row]:
    """The settings, and the ones of PostgreSQL that have a value here, as pg_settings has them."""
    path = ", ".join(key or PUBLIC for key in session.search_path or ("",))
    others = {**SHOWN, "search_path": (path, "schemas in which names are looked up")}
    zone = str(session.settings.get("time_zone"))
    others["timezone"] = (zone, "time zone of the session")
    found = [(name, value, value, text, "postgresql") for name, (value, text) in others.items()]
    return [*setting_rows(session), *found]


def _routine_rows(session: Session) -> list[Row]:
    found = function_rows(session.catalog.functions.values(), session.catalog.definitions.values())
    return [(CATALOG, PUBLIC, *row) for row in found]


def _database_rows(session: Session) -> list[Row]:
    """The name of the catalog, with the file or the directory that the owner has opened."""
    is_owner = session.caller.is_owner
    own: Row = (CATALOG, session.path if is_owner else None, False)
    attached = session.catalog.databases
    if not attached:
        return [own]
    schemas = getattr(session.connectors.get("DuckDB"), "schemas", {})
    return [
        own,
        *(
            (
                item.name,
                item.text if is_owner else None,
                schemas[f"{item.name.lower()}.{MAIN}"].is_read_only,
            )
            for item in attached
        ),
    ]


def _job_rows(session: Session) -> list[Row]:
    from runnel.statements.jobs.show import job_rows

    return job_rows(session)


def _metric_rows(session: Session) -> list[Row]:
    from runnel.statements.jobs.job_metrics import metric_rows

    return metric_rows(session)


_ROWS: dict[str, Callable[[Session], list[Row]]] = {
    "jobs": _job_rows,
    "job_metrics": _metric_rows,
    "plans": plan_rows,
    "settings": setting_rows,
    "parameters": parameter_rows,
    "routines": _routine_rows,
    "databases": _database_rows,
}
