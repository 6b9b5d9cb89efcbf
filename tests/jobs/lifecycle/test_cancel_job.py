"""CANCEL JOB: a light job ends, whoever reads it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import runnel
from tests.jobs.lifecycle.test_create_job import MAP, PATIENCE, SCHEMA
from tests.waiting import eventually


@pytest.fixture
def connection() -> Iterator[runnel.Connection]:
    with runnel.connect() as made:
        made.register_stream("s", SCHEMA)
        yield made


def only(connection: runnel.Connection) -> int:
    (job,) = connection.jobs()
    return job.id


def test_another_cursor_cancels_a_query(connection: runnel.Connection) -> None:
    reader = connection.execute("SELECT k FROM s")
    job = only(connection)
    connection.execute(f"CANCEL JOB {job}", timeout=PATIENCE)
    assert connection.jobs() == []
    with pytest.raises(runnel.OperationalError, match="the job was cancelled") as caught:
        reader.fetchone()
    assert caught.value.code is runnel.ErrorCode.CANCELLED
    with pytest.raises(runnel.ProgrammingError, match=f"job {job} not found"):
        connection.execute(f"CANCEL JOB {job}")


def test_a_bounded_query_that_waits_for_its_reader(connection: runnel.Connection) -> None:
    reader = connection.execute("SELECT v FROM TABLE(GENERATE_SERIES(1, 100000000)) AS t(v)")
    assert reader.fetchone() == (1,)
    connection.execute(f"cancel job {only(connection)};", timeout=PATIENCE)
    with pytest.raises(runnel.OperationalError, match="cancelled"):
        reader.fetchall()


def test_ids_that_are_no_light_jobs(connection: runnel.Connection) -> None:
    connection.execute(f"CREATE MAPPING m {MAP}")
    connection.execute("CREATE JOB j AS SINK INTO m SELECT k, v FROM s")
    named = connection.job("j")
    with pytest.raises(runnel.ProgrammingError, match="is a named job") as caught:
        connection.execute(f"CANCEL JOB {named.id}")
    assert caught.value.hint == 'DROP JOB "j" ends it'
    assert named.execution is not None
    with pytest.raises(runnel.ProgrammingError, match="not found") as caught:
        connection.execute(f"CANCEL JOB {named.execution.id}")
    assert caught.value.hint == "no light job is running; one disappears when it ends"
    assert eventually(lambda: named.status is runnel.JobStatus.RUNNING)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CANCEL JOB", "expected the id of a light job"),
        ("CANCEL JOB j", 'a number as its id, not "j"'),
        ("CANCEL JOB 1.5", 'a number as its id, not "1.5"'),
        ("CANCEL JOB -1", 'a number as its id, not "-"'),
        ("CANCEL JOB 12345678901234567890", "job 12345678901234567890 not found"),
        ("CANCEL JOB 1" + "0" * 5000, "job 1000000000000000000000000000000000000000… not found"),
        ("CANCEL JOB 1 2", "syntax error"),
        ("CANCEL QUERY 1", "syntax error"),
    ],
)
def test_wrong_statements(connection: runnel.Connection, statement: str, message: str) -> None:
    with pytest.raises(runnel.ProgrammingError) as caught:
        connection.execute(statement)
    assert message in f"{caught.value.message}; {caught.value.detail}"


def test_restarts_count_processes(tmp_path: object) -> None:
    for restarts in range(3):
        with runnel.connect(f"{tmp_path}/db") as connection:
            if not restarts:
                connection.execute(f"CREATE MAPPING m {MAP}")
                connection.execute(
                    "CREATE JOB j AS SINK INTO m SELECT v, v FROM TABLE(GENERATE_STREAM(1))"
                )
            assert connection.job("j").record.restarts == restarts
