"""The documented functions over columns of a stream return the same values as over a table in
memory; some also run in a job that is suspended and resumed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import runnel
from runnel import JobStatus
from runnel.planner.bind.scalars.macro_table import macros
from tests.documented.column_examples import (
    ColumnExample,
    chunks,
    column_examples,
    one_row,
)
from tests.jobs.feeds import PATIENCE, Feed, FeedConnector
from tests.rendering.matrix import examples
from tests.slt.runner import text
from tests.waiting import eventually

SCALE = {"ROUND", "TRUNCATE"}
"""With a number of digits that is no literal, the type has as many digits as the argument."""
GROUPED = {"GROUPING"}
BY_NAME = {f"macro {name}" for name in ("LIST_AGGREGATE", "LIST_AGGR", "ARRAY_AGGREGATE")}
BY_NAME |= {"macro ARRAY_AGGR", "macro AGGREGATE"}
"""Functions that call an aggregate by its name."""
BY_LITERAL = {"FORMAT", "format_braces"}
"""A literal that has {} selects another function."""


@pytest.fixture(scope="module")
def connection() -> Iterator[runnel.Connection]:
    with runnel.connect() as made:
        yield made


@pytest.fixture(scope="module")
def found(connection: runnel.Connection) -> list[ColumnExample]:
    return list(column_examples(connection))


def test_most_examples_run_over_columns(
    found: list[ColumnExample], connection: runnel.Connection
) -> None:
    assert len(found) > 380
    differing = []
    for part in chunks(found, 60):
        connection.register("documented", one_row(connection, [item.columns for item in part]))
        items = ", ".join(f"{e.expression} AS v{i}" for i, e in enumerate(part))
        (row,) = connection.execute(f"SELECT {items} FROM documented").fetchall()
        differing += [
            (item.name, text(value))
            for item, value in zip(part, row, strict=True)
            if text(value) != examples()[item.name].value
        ]
    assert {name for name, _ in differing} == SCALE | BY_LITERAL


def test_over_a_stream(found: list[ColumnExample], connection: runnel.Connection) -> None:
    """Aggregates of lists are subqueries, which need all rows of a stream: they are refused."""
    streamed = [item for item in found if item.name not in GROUPED and not is_subquery(item.name)]
    wrong = []
    for part in chunks(streamed, 60):
        row = one_row(connection, [item.columns for item in part])
        stream = connection.register_stream("documented_stream", row.schema)
        items = ", ".join(f"{item.expression} AS v{i}" for i, item in enumerate(part))
        cursor = connection.execute(f"SELECT {items} FROM documented_stream")
        stream.write(row)
        stream.close()
        (values,) = cursor.fetchall()
        wrong += mismatches(part, [repr(value) for value in values])
        connection.unregister("documented_stream")
    assert wrong == []
    assert len(streamed) > 320


def is_subquery(name: str) -> bool:
    """Whether a name stands for a subquery."""
    bodies = [item.body for item in macros().get(name.removeprefix("macro "), ())]
    return name in BY_NAME or (name.startswith("macro ") and any("SELECT" in b for b in bodies))


def mismatches(part: list[ColumnExample], shown: list[str]) -> list[tuple[str, str, str]]:
    return [
        (item.expression, value, item.value)
        for item, value in zip(part, shown, strict=True)
        if value != item.value
    ]


IN_A_JOB = (
    "[i * 2 FOR i IN [k, ts] IF i > 1]",
    "strftime(EPOCH_MS(ts), '%Y-%m-%d')",
    "printf('%05d', k)",
    "format('{}-{}', k, ts)",
    "list_zip([k], [ts])",
    "struct_insert({'a': k}, b := ts)",
    "DATE_FORMAT(EPOCH_MS(ts), 'yyyy-MM-dd')",
    "FROM_UNIXTIME(k)",
    "SPLIT_INDEX(CAST(k AS VARCHAR) || ',' || CAST(ts AS VARCHAR), ',', 1)",
    "STR_TO_MAP('k=' || CAST(k AS VARCHAR), ',', '=')['k']",
    "TIMESTAMPADD(DAY, k, TIMESTAMP '2026-01-05 00:00:00')",
    "json_build_object('k', k)",
    "num_nulls(k, NULL)",
    "(SELECT SUM(CAST(e.value AS BIGINT)) FROM UNNEST([1, 2]) AS e(value)) + k",
)
"""Expressions over the columns k and ts of a feed."""


def test_in_a_job_that_is_suspended_and_resumed(tmp_path: Path) -> None:
    rows = [(k, 1_767_571_200_000 + k) for k in range(1, 5)]
    items = ", ".join(f"CAST({item} AS VARCHAR) AS v{i}" for i, item in enumerate(IN_A_JOB))
    columns = ", ".join(f"v{i} VARCHAR" for i in range(len(IN_A_JOB)))
    feed = Feed()
    with runnel.connect(tmp_path / "directory") as connection:
        connection.add_connector(FeedConnector(feed=(feed,)))
        connection.execute("CREATE MAPPING feed TYPE Feed")
        connection.execute(f"CREATE TABLE out ({columns}, part VARCHAR)")
        connection.execute(
            f"CREATE JOB j AS INSERT INTO out SELECT {items}, p.value FROM feed, "
            "string_to_table(CAST(k AS VARCHAR) || ',x', ',') AS p(value)"
        )
        job = connection.job("j")
        feed.give(*rows[:2])
        assert eventually(lambda: any(m.rows_in >= 2 for m in job.metrics().values()))
        connection.execute("ALTER JOB j SUSPEND")
        assert job.await_status(JobStatus.SUSPENDED, PATIENCE)
        connection.execute("ALTER JOB j RESUME")
        feed.give(*rows[2:])
        feed.end()
        job.join(PATIENCE)
        listed = ", ".join(f"(CAST({k} AS BIGINT), CAST({ts} AS BIGINT))" for k, ts in rows)
        expected = connection.execute(
            f"SELECT {items}, p.value FROM (VALUES {listed}) AS feed (k, ts), "
            "string_to_table(CAST(k AS VARCHAR) || ',x', ',') AS p(value)"
        ).fetchall()
        stored = connection.execute("FROM out").fetchall()
    assert sorted(stored) == sorted(expected)
    assert len(stored) == 8
