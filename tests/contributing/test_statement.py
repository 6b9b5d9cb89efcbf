"""The example of docs/contributing.md: a statement, `DROP SNAPSHOT`, through its stages."""

from __future__ import annotations

import pytest

import runnel
from runnel.catalog import Catalog
from runnel.planner.bind.query import Environment
from runnel.planner.parse.jobs import DropSnapshot
from runnel.planner.parse.statement import parse
from runnel.planner.planner import plan
from runnel.planner.plans import CommandPlan

SQL = "DROP SNAPSHOT IF EXISTS before_upgrade"


def no_files(*arguments: object) -> None:
    raise AssertionError("the statement opens no file")


def test_text_to_syntax() -> None:
    statement = parse(SQL)
    assert isinstance(statement, DropSnapshot)
    assert (statement.name.text, statement.if_exists) == ("before_upgrade", True)
    with pytest.raises(runnel.ProgrammingError):
        parse("DROP SNAPSHOT")


def test_syntax_to_plan() -> None:
    environment = Environment(file_table=no_files)  # type: ignore[arg-type]
    found = plan(SQL, Catalog().snapshot, (), environment)
    assert isinstance(found, CommandPlan)
    assert found.statement == parse(SQL)


def test_plan_to_effect() -> None:
    with runnel.connect() as connection:
        connection.execute(SQL)
        with pytest.raises(runnel.ProgrammingError, match="before_upgrade") as error:
            connection.execute("DROP SNAPSHOT before_upgrade")
        assert error.value.position is not None
