"""The functions of DuckDB and PostgreSQL: each exists here, or is listed as left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import runnel
from runnel.errors import DatabaseError, ErrorCode
from runnel.expressions.left_out import families, reason
from runnel.planner.bind.hints import TABLE_FUNCTIONS
from runnel.planner.parse.query.set_functions import SET_FUNCTIONS
from runnel.planner.parse.query.table_arguments import TABLE_OPENERS

POSTGRESQL = Path(__file__).with_name("postgresql_functions.txt")
FAMILIES = {
    family: names.split()
    for family, _, names in (
        line.partition(": ") for line in POSTGRESQL.read_text("utf-8").splitlines()[1:]
    )
}
SYNTAX = {
    "element_at",
    "position",
    "extract",
    "overlay",
    "unnest",
    "grouping",
    "json_array",
    "json_object",
}
"""Names that are parsed as clauses, and one that needs an ARRAY or a MAP."""


@pytest.fixture(scope="module")
def connection() -> Iterator[runnel.Connection]:
    with runnel.connect() as found:
        yield found


@pytest.fixture(scope="module")
def listed(connection: runnel.Connection) -> set[str]:
    shown = {row[0].lower() for row in connection.execute("SHOW FUNCTIONS").fetchall()}
    tables = {*TABLE_FUNCTIONS, *TABLE_OPENERS, *SET_FUNCTIONS}
    return shown | {name.lower() for name in tables} | SYNTAX


def exists(name: str, connection: runnel.Connection) -> bool:
    """Whether a call with some number of arguments finds the function."""
    for count in range(4):
        try:
            connection.execute(f"SELECT {name}({', '.join(['NULL'] * count)})")
        except DatabaseError as error:
            if error.code == ErrorCode.OBJECT_NOT_FOUND:
                continue
        return True
    return False


def test_each_function_of_duckdb_exists_or_is_left_out(
    connection: runnel.Connection, listed: set[str]
) -> None:
    with duckdb.connect() as oracle:
        rows = oracle.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() "
            "WHERE internal AND function_type <> 'pragma'"
        ).fetchall()
    names = {name for (name,) in rows if re.match("[a-z]", name)} - listed
    missing = sorted(name for name in names if reason(name) is None)
    assert [name for name in missing if not exists(name, connection)] == []


@pytest.mark.parametrize("family", FAMILIES)
def test_each_function_of_postgresql_exists_or_is_left_out(
    family: str, connection: runnel.Connection, listed: set[str]
) -> None:
    missing = [name for name in FAMILIES[family] if name not in listed and reason(name) is None]
    assert [name for name in missing if not exists(name, connection)] == []


def test_no_function_that_exists_is_left_out(listed: set[str]) -> None:
    assert sorted(name for name in listed if reason(name) is not None) == []
    names = [name for family in families() for name in family.names]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("family", families(), ids=lambda item: item.family)
def test_the_error_of_a_function_left_out_has_the_reason(
    family: object, connection: runnel.Connection
) -> None:
    for name in family.names:  # type: ignore[attr-defined]
        if "*" in name:
            continue
        with pytest.raises(DatabaseError) as caught:
            connection.execute(f"SELECT {name}(1)")
        assert caught.value.hint == family.reason, name  # type: ignore[attr-defined]
        break
