"""Hints for unknown names: names that other engines have, or that exist but are not visible where
they are used.

Imported only when a statement has failed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.errors import Error, suggest
from runnel.expressions.build import is_function
from runnel.expressions.left_out import reason
from runnel.planner.bind.grouping.aggregate import is_aggregate
from runnel.planner.bind.scalars.macros import macro_names
from runnel.planner.bind.scope import Scope
from runnel.planner.parse.query.allow_list import function_call
from runnel.planner.parse.query.set_functions import SET_FUNCTIONS
from runnel.planner.parse.query.table_arguments import FUNCTIONS, TABLE_OPENERS

if TYPE_CHECKING:
    from runnel.catalog import CatalogObject
    from runnel.planner.environment import Environment

_READERS = {
    "READ_JSON_OBJECTS": "read_lines",
    "ARROW_SCAN": "read_arrow",
    "SEQUENCE": "GENERATE_SERIES",
}
_SHOWN_READERS = (
    "read_csv",
    "read_json",
    "read_parquet",
    "read_arrow",
    "read_avro",
    "read_lines",
    "read_text",
    "read_blob",
)
TABLE_FUNCTIONS = (
    *("GENERATE_SERIES", "RANGE", "GENERATE_STREAM", "JOB_STATE", "SNAPSHOT_STATE"),
    *(name.upper() for name in _SHOWN_READERS),
    *sorted(FUNCTIONS),
    *(name for name in SET_FUNCTIONS if not name.startswith(("JSONB", "PG_"))),
)
_COLUMN = re.compile(r'column "(.+)" does not exist')
_TABLE = re.compile(r'table "(.+)" is not in the FROM clause')


def table_function_hint(name: str) -> str | None:
    """The hint for a table function that does not exist."""
    reader = _READERS.get(name.upper())
    if reader is not None:
        return f"use {reader}(…)"
    if name.lower().startswith(("read", "scan")) and reason(name) is None:
        return suggest(name, TABLE_OPENERS, f"the readers are {', '.join(_SHOWN_READERS)}")
    known = catalog_hint(name) or reason(name)
    if known is not None:
        return known
    if is_function(name.upper()) or name.upper() in macro_names():
        return (
            f"{name} returns a value: the items of an array are the rows of CROSS JOIN "
            f"UNNEST({name}(…)) AS t (x)"
        )
    listed = ", ".join(TABLE_FUNCTIONS[:-1])
    return suggest(name, TABLE_FUNCTIONS, f"there are {listed} and {TABLE_FUNCTIONS[-1]}")


def catalog_hint(name: str) -> str | None:
    """The hint for a table of another system's catalog; None for other names."""
    from runnel.planner.bind.system_views.views import is_view

    last = name.upper().rpartition(".")[2]
    if is_view(last):
        return f"the view can only be read: FROM {last.lower()}"
    if last.partition("_")[0] not in ("PG", "DUCKDB", "SQLITE"):
        return None
    return "the catalog is in information_schema: SHOW ALL TABLES; functions in SHOW FUNCTIONS"


def file_hint(name: str) -> str | None:
    """The hint for an unknown table; None if the name is like no name of a file, nor of a table of
    another system's catalog."""
    from runnel.planner.bind.tables.files import is_data_file

    if (found := catalog_hint(name)) is not None:
        return found
    return f"to read a file, write FROM '{name}', in single quotes" if is_data_file(name) else None


def variable_of(
    environment: Environment, name: str, error: Error, *, in_view: bool
) -> CatalogObject | None:
    """The data frame of the caller's variable of that name; None if there is none, or if a view or
    a job has the name, which outlive the variable: then the error gets a hint."""
    variables = environment.variables
    if variables is None or not name.isidentifier():
        return None
    found = variables.find(name)
    if found is None:
        error.hint = variables.hint(name) or error.hint
    elif environment.in_job or in_view:
        reader, remedy = "a view", f'register it with register("{name}", {name}), or '
        if environment.in_job:
            reader, remedy = "a job", ""
        error.hint = (
            f'{reader} cannot read the variable "{name}" of the program: {remedy}insert its rows '
            "into a table"
        )
        return None
    return found


def alias_hint(error: Error, select: Any) -> str | None:
    """The hint for an error in WHERE: the name may be an alias of the select list."""
    match = _COLUMN.fullmatch(error.message)
    if match is None:
        return None
    for item in select.expressions:
        if isinstance(item, exp.Alias) and item.alias.lower() == match[1].lower():
            if item.this.find(exp.Window) is not None:
                return (
                    f'"{item.alias}" is the value of a window function: filter by it with QUALIFY '
                    "instead of WHERE"
                )
            if any(is_aggregate((function_call(node) or ("", []))[0]) for node in item.this.walk()):
                return (
                    f'"{item.alias}" is the value of an aggregate: filter by it with HAVING '
                    "instead of WHERE"
                )
    return None


def lateral_hint(error: Error, left: Scope) -> str | None:
    """The hint for an error in a subquery in FROM: the name may belong to a table before it."""
    column, table = _COLUMN.fullmatch(error.message), _TABLE.fullmatch(error.message)
    names = (
        {item.name.lower() for item in left.columns}
        if column
        else {(item.qualifier or "").lower() for item in left.columns}
    )
    match = column or table
    if match is None or match[1].lower() not in names:
        return None
    return (
        "to refer to tables before it, write LATERAL in front of the subquery: …, "
        "LATERAL (SELECT …) AS x"
    )
