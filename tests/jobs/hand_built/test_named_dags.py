"""Named jobs of hand-built DAGs: they live like jobs of queries."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

import runnel
from runnel import JobStatus
from runnel.dag import DAG
from runnel.processors.library import AggregateOperation, result_sink, sink_to_list, summing
from tests.jobs.hand_built import steps
from tests.jobs.named import PATIENCE, World
from tests.waiting import eventually


@pytest.fixture
def world() -> Iterator[World]:
    steps.WORLDS["w"] = world = World()
    yield world
    del steps.WORLDS["w"]


@pytest.fixture
def connection() -> Iterator[runnel.Connection]:
    with runnel.connect() as made:
        yield made


def submitted(connection: runnel.Connection, dag: DAG, name: str = "j", **options: Any) -> Any:
    return connection.submit(dag, name=name, guarantee="exactlyOnce", options=options)


def running_sums(limit: int) -> list[int]:
    return list(accumulate(range(limit)))


def reaches(world: World, job: Any, limit: int) -> None:
    """The job has committed the running sums of the numbers below the limit, each once."""
    world.give(limit)

    def is_there() -> bool:
        if job.status is JobStatus.RUNNING:
            job.export_snapshot("point", PATIENCE)
        return world.rows == running_sums(limit)

    assert eventually(is_there), world.rows


def test_a_suspended_dag_resumes_with_its_state(
    connection: runnel.Connection, world: World
) -> None:
    job = submitted(connection, steps.sums("w"))
    reaches(world, job, 5)
    job.suspend(PATIENCE)
    job.resume()
    reaches(world, job, 9)
    job.restart(PATIENCE)
    world.give(12, ends=True)
    job.join(PATIENCE)
    assert world.rows == running_sums(12)
    assert job.record.guarantee == "exactlyOnce"


def test_a_failed_dag_restarts_from_its_snapshot(
    connection: runnel.Connection, world: World
) -> None:
    job = submitted(connection, steps.sums("w"))
    reaches(world, job, 5)
    world.fail(runnel.OperationalError("the network is down"))
    assert job.await_status(JobStatus.NOT_RUNNING, PATIENCE)
    assert job.await_status(JobStatus.RUNNING, PATIENCE)
    reaches(world, job, 7)
    assert job.record.restarts == 1


def test_a_failure_that_lasts_suspends_it(connection: runnel.Connection, world: World) -> None:
    job = submitted(connection, steps.sums("w"))
    reaches(world, job, 3)
    world.fail(ValueError("broken"))
    assert job.await_status(JobStatus.SUSPENDED, PATIENCE)
    assert '"numbers"' in str(job.error)
    job.resume()
    reaches(world, job, 4)


def test_a_directory_runs_its_dags_again(tmp_path: Path, world: World) -> None:
    with runnel.connect(tmp_path / "db") as connection:
        reaches(world, submitted(connection, steps.sums("w")), 5)
    with runnel.connect(tmp_path / "db") as connection:
        job = connection.job("j")
        assert job.status is JobStatus.RUNNING
        reaches(world, job, 8)
        (found,) = connection.execute("SHOW JOBS FULL").fetchall()
        assert found[4] == "DAG: numbers, add, keep"
    assert world.starts[-1] >= 5


def test_a_dag_starts_from_a_named_snapshot(connection: runnel.Connection, world: World) -> None:
    job = submitted(connection, steps.sums("w"))
    reaches(world, job, 5)
    connection.execute("DROP JOB j WITH SNAPSHOT before", timeout=PATIENCE)
    second = submitted(connection, steps.sums("w"), "k", initialSnapshotName="before")
    world.give(8)

    def is_there() -> bool:
        second.export_snapshot("point", PATIENCE)
        return world.committed.get(str(second.id), [])[-3:] == running_sums(8)[-3:]

    assert eventually(is_there), world.committed


def test_a_query_refuses_the_snapshot_of_a_dag(connection: runnel.Connection, world: World) -> None:
    job = submitted(connection, steps.sums("w"))
    reaches(world, job, 5)
    connection.execute("DROP JOB j WITH SNAPSHOT before", timeout=PATIENCE)
    connection.execute("CREATE TABLE t (a BIGINT)")
    connection.register_stream("s", {"a": "BIGINT"})
    create = (
        "CREATE JOB k OPTIONS ('initialSnapshotName'='before') AS INSERT INTO t SELECT a FROM s"
    )
    with pytest.raises(runnel.ProgrammingError, match="has the state of a DAG") as caught:
        connection.execute(create)
    assert caught.value.detail == 'job "j" had the vertices of DAG: numbers, add, keep'
    assert caught.value.position is not None and create[caught.value.position.offset :].startswith(
        "'initialSnapshotName'"
    )
    assert connection.execute("SHOW JOBS").fetchall() == []


def test_an_update_keeps_state_by_vertex_name(connection: runnel.Connection, world: World) -> None:
    job = submitted(connection, steps.sums("w"))
    reaches(world, job, 5)
    job.update(steps.sums("w", steps.Adders(first=1000)), timeout=PATIENCE)
    reaches(world, job, 8)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "sum"}, "add: its DAG has no such vertex"),
        ({"adders": partial(steps.Subtracter, 0)}, "add: refused, as it was DAG"),
    ],
)
def test_an_update_that_would_lose_state(
    connection: runnel.Connection, world: World, changes: dict[str, Any], reason: str
) -> None:
    job = submitted(connection, steps.sums("w"))
    reaches(world, job, 5)
    with pytest.raises(runnel.OperationalError, match="can't resume from its snapshot") as caught:
        job.update(steps.sums("w", **changes), timeout=PATIENCE)
    assert reason in str(caught.value.detail) and "incompatibleState" in str(caught.value.hint)
    reaches(world, job, 6)  # with its old DAG
    world.committed.clear()
    job.update(steps.sums("w", **changes), {"incompatibleState": "empty"}, PATIENCE)
    world.give(7)

    def begins_anew() -> bool:
        job.export_snapshot("point", PATIENCE)
        return world.rows == [6]

    assert eventually(begins_anew), world.rows


@pytest.mark.parametrize("operation", [steps.SUMS, summing("x")], ids=["own", "sql"])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_groups_are_restored_at_any_parallelism(
    connection: runnel.Connection, world: World, operation: AggregateOperation, parallelism: int
) -> None:
    job = submitted(connection, steps.groups("w", operation, 2))
    world.give(10)
    assert eventually(lambda: job.rows_in >= 0 and consumed(job) == 10)
    job.update(steps.groups("w", operation, parallelism), timeout=PATIENCE)
    world.give(20, ends=True)
    job.join(PATIENCE)
    assert world.rows == [sum(range(0, 20, 2)), sum(range(1, 20, 2))]


def consumed(job: Any) -> int:
    return int(job.metrics()["group"].rows_in) if job.metrics() else 0


def test_the_factory_is_gone_when_the_directory_is_opened(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vanishing_steps.py").write_text(
        "from tests.jobs.hand_built.steps import Adder\n\n\nclass Mine(Adder):\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import vanishing_steps  # type: ignore[import-not-found]

    with runnel.connect(tmp_path / "db") as connection:
        dag = steps.sums("w", partial(vanishing_steps.Mine, 0))
        reaches(world, submitted(connection, dag), 5)
    (tmp_path / "vanishing_steps.py").rename(tmp_path / "elsewhere.py")
    del sys.modules["vanishing_steps"]
    with runnel.connect(tmp_path / "db") as connection:
        job = connection.job("j")
        assert job.status is JobStatus.SUSPENDED and job.error is not None
        assert job.error.message == 'the supplier of vertex "add" can\'t be imported'
        assert "vanishing_steps" in str(job.error.detail)
        (tmp_path / "elsewhere.py").rename(tmp_path / "vanishing_steps.py")
        job.resume()
        reaches(world, job, 8)


@pytest.mark.parametrize(
    ("supplier", "reason"),
    [
        (lambda: steps.Adder(0), "it has a lambda, which has no name to import it by"),
        (partial(steps.Adder, object()), "it has a value of class object"),
        (sink_to_list([]), "it has a lambda, which has no name to import it by"),
        (partial(steps.Adder(0).process, 0), "it has a method of a value of class Adder"),
        (result_sink(), None),
    ],
)
def test_what_has_no_stored_form(
    connection: runnel.Connection, world: World, supplier: Any, reason: str | None
) -> None:
    dag = DAG()
    dag.vertex("v", supplier)
    with pytest.raises(runnel.ProgrammingError, match='"v"') as caught:
        submitted(connection, dag)
    assert caught.value.hint
    assert reason is None or caught.value.detail == reason
    assert connection.execute("SHOW JOBS FULL").fetchall() == []


def test_functions_without_a_name_to_import_them_by(
    connection: runnel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Local(steps.Adder):
        pass

    for supplier, reason in (
        (partial(Local, 0), "defined inside a function"),
        (renamed, "is not what module"),
        (of_main, "of the main program"),
    ):
        dag = DAG()
        dag.vertex("v", supplier)
        with pytest.raises(runnel.ProgrammingError, match='"v"') as caught:
            submitted(connection, dag)
        assert reason in str(caught.value.detail)


def renamed() -> steps.Adder:
    return steps.Adder(0)


def of_main() -> steps.Adder:
    return steps.Adder(0)


renamed.__qualname__ = "other"
of_main.__module__ = "__main__"


def test_a_source_without_a_position(connection: runnel.Connection) -> None:
    dag = DAG()
    dag.vertex("forgetful", steps.Forgetful)
    with pytest.raises(
        runnel.ProgrammingError, match='source "forgetful" has no position'
    ) as caught:
        submitted(connection, dag)
    assert "holds_snapshots" in str(caught.value.hint)
    connection.submit(dag, name="j", guarantee="none").join(PATIENCE)


def test_an_accumulator_without_a_stored_form(connection: runnel.Connection, world: World) -> None:
    job = submitted(connection, steps.groups("w", steps.OPAQUE, 1))
    world.give(3)
    assert eventually(lambda: consumed(job) == 3)
    with pytest.raises(runnel.Error):
        job.export_snapshot("s", PATIENCE)
    assert job.await_status(JobStatus.SUSPENDED, PATIENCE)
    assert "accumulator that can't be stored" in str(job.error)


def test_statements_that_need_a_query(connection: runnel.Connection, world: World) -> None:
    job = submitted(connection, steps.sums("w"))
    connection.execute(
        "CREATE MAPPING m TYPE IMap OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
    )
    for statement in (
        "ALTER JOB j AS SINK INTO m SELECT v, v FROM TABLE(GENERATE_STREAM(1))",
        "EXPLAIN ALTER JOB j AS SINK INTO m SELECT v, v FROM TABLE(GENERATE_STREAM(1))",
        "VERIFY JOB j",
    ):
        with pytest.raises(runnel.NotSupportedError, match="hand-built DAG") as caught:
            connection.execute(statement, timeout=PATIENCE)
        assert "update(dag)" in str(caught.value.hint)
    connection.execute("ALTER JOB j SUSPEND", timeout=PATIENCE)
    connection.execute("ALTER JOB j OPTIONS ('snapshotIntervalMillis'='500')", timeout=PATIENCE)
    connection.execute("ALTER JOB j RESUME", timeout=PATIENCE)
    reaches(world, job, 3)
    connection.execute("DROP JOB j", timeout=PATIENCE)


def test_a_job_of_a_query_has_no_dag(connection: runnel.Connection, world: World) -> None:
    connection.execute(
        "CREATE MAPPING m TYPE IMap OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
    )
    connection.execute("CREATE JOB q AS SINK INTO m SELECT v, v FROM TABLE(GENERATE_STREAM(1))")
    with pytest.raises(runnel.NotSupportedError, match="runs a query"):
        connection.job("q").update(steps.sums("w"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "", "guarantee": "exactlyOnce"}, "has a name"),
        ({"name": "j", "guarantee": "exactly"}, "a guarantee can't be 'exactly'"),
        ({"name": "j", "guarantee": 3}, "a guarantee can't be 3"),
        ({"name": "j", "options": {"snapshotIntervalMillis": 5}}, "a light job has no options"),
        ({"options": {"snapshotIntervalMillis": -5}}, "can't be '-5'"),
        ({"options": {"snapshotInterval": 5}}, "snapshotInterval"),
        ({"options": {"snapshotIntervalMillis": 5.5}}, "can't be 5.5"),
        ({"options": {"runtime": "spark"}}, "can't run on spark"),
        ({"options": {"modules": "m.py"}}, 'module "m.py" can\'t be read'),
        ({"options": {"initialSnapshotName": "none"}}, '"none"'),
    ],
)
def test_bad_arguments(
    connection: runnel.Connection, world: World, arguments: dict[str, Any], message: str
) -> None:
    given = {"name": "j", **arguments}
    if "options" in given and "name" not in arguments:
        given["guarantee"] = "atLeastOnce"
    with pytest.raises(runnel.Error) as caught:
        connection.submit(steps.sums("w"), **given)
    assert message in str(caught.value.message)
    assert connection.execute("SHOW JOBS FULL").fetchall() == []


def test_a_name_that_is_in_use(connection: runnel.Connection, world: World) -> None:
    submitted(connection, steps.sums("w"))
    with pytest.raises(runnel.ProgrammingError, match='job "j" exists already'):
        submitted(connection, steps.sums("w"))
