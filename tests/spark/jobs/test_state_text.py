"""By what Spark's state is known again, without a Spark."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.connectors.spark.jobs.streaming import _check_checkpoint
from runnel.connectors.spark.session.connect_client import _named_checkpoint
from runnel.foreign.job_runtime import RuntimePlan
from runnel.statements.jobs.runtimes import foreign_plan


def plan_of(query: str, one: int, two: int) -> RuntimePlan:
    """The plan of a job over a stream and two tables of so many rows."""
    with runnel.connect() as connection:
        for name, size in (("one", one), ("two", two)):
            connection.register(name, pa.table({"a": range(size), "b": range(size)}))
        connection.execute(
            "CREATE MAPPING s (v BIGINT) TYPE Spark "
            "OPTIONS ('path' = 's.parquet', 'follow' = 'true')"
        )
        connection.execute(
            "CREATE MAPPING o (v BIGINT, b BIGINT) TYPE Spark OPTIONS ('path' = 'o.parquet')"
        )
        write = connection._session.plan_job(f"INSERT INTO o {query}", (), "UTC", is_confined=False)
        return foreign_plan(connection._session, write, "spark")


def test_the_order_of_look_ups_is_no_part_of_it() -> None:
    query = (
        "SELECT s.v, x.b FROM s JOIN (SELECT one.a, two.b FROM one "
        "JOIN two ON one.a = two.a) x ON x.a = s.v"
    )
    before, after = plan_of(query, 5, 5000), plan_of(query, 5000, 5)
    assert before.text != after.text, "the smaller one is looked up"
    assert before.state_text == after.state_text
    assert (
        plan_of(query.replace("SELECT s.v,", "SELECT s.v + 1,"), 5, 5000).state_text
        != before.state_text
    )
    assert (
        plan_of(query.replace("JOIN two", "JOIN one AS two"), 5, 5000).state_text
        != before.state_text
    )


def test_the_checkpoint_of_a_server_is_not_looked_for_here(tmp_path: Path) -> None:
    start: Any = SimpleNamespace(folder=tmp_path, name="j")
    (tmp_path / "committed.json").write_text('{"batch": 3, "token": {}}')
    with pytest.raises(runnel.OperationalError, match="its checkpoint is gone"):
        _check_checkpoint(start)
    (tmp_path / "checkpoint").mkdir()
    _named_checkpoint(tmp_path / "checkpoint", "s3://somewhere")
    _check_checkpoint(start)


def test_the_words_of_errors_are_no_part_of_it() -> None:
    most = "SELECT a, MAX(CAST(b AS DECIMAL(5, 2))) AS c FROM one GROUP BY a"
    query = f"SELECT SQRT(s.v), x.c FROM s JOIN ({most}) x ON x.a = s.v"
    plan = plan_of(query, 5, 5)
    assert "FROM one (BIGINT, DECIMAL(5, 2))" in plan.state_text, (
        "it is stored with the checkpoints of jobs"
    )
    message = re.search(r"raise_error\('\[data error\] [^']*'\)", plan.state_text)
    assert message is not None
    for other in (
        "raise_error('[data error] too large')",
        "raise_error(concat('[data error] it', char(39), 's', char(0)))",
    ):
        assert plan.has_state_of(plan.state_text.replace(message[0], other))
    for other in ("raise_error('too large')", "coalesce('[data error] too large')"):
        assert not plan.has_state_of(plan.state_text.replace(message[0], other))
    assert not plan.has_state_of(plan.state_text.replace("FROM one", "FROM two"))


def test_a_query_that_ends_may_always_go_on() -> None:
    with runnel.connect() as connection:
        connection.register("one", pa.table({"a": [1]}))
        connection.execute("CREATE MAPPING o (v BIGINT) TYPE Spark OPTIONS ('path' = 'o.parquet')")
        write = connection._session.plan_job(
            "INSERT INTO o SELECT a FROM one", (), "UTC", is_confined=False
        )
        plan = foreign_plan(connection._session, write, "spark")
    assert plan.state_text == "a query that ends", "it is stored with the checkpoints of jobs"
