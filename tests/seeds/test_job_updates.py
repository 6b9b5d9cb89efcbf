"""Jobs that are replaced by others, or end with their connection, as the document on the concepts
describes them: its examples, and the changes of state that it allows and refuses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import runnel
from runnel import DAG, Connection, JobStatus, between
from runnel.dag import storable
from runnel.processors.library import sink_to
from tests.jobs.hand_built import steps
from tests.jobs.named import Counter, World
from tests.jobs.state_evolution.test_recombining import PATIENCE, put, streaming
from tests.waiting import eventually

COUNTS = "INSERT INTO m SELECT window_end, COUNT(*) FROM TABLE({}) GROUP BY window_end"


def replaced(
    first: str, second: str, before: list[int], after: list[int]
) -> tuple[dict[int, int], dict[int, int]]:
    """The counts by the end of a window that were emitted before and after the windows changed in
    the middle of the events, whose times are in seconds."""
    with streaming(2, columns="n") as (connection, writer):
        connection.execute(f"CREATE JOB j AS {COUNTS.format(first)}")
        put(connection, writer, [(0, second, 0) for second in before])
        connection.execute("CREATE SNAPSHOT s FOR JOB j", timeout=PATIENCE)
        emitted = dict(connection.execute("SELECT * FROM m").fetchall())
        connection.execute(f"ALTER JOB j AS {COUNTS.format(second)}", timeout=PATIENCE)
        writer.write([(0, second, 0) for second in after])
        writer.close()
        connection.job("j").join(PATIENCE)
        found = dict(connection.execute("SELECT * FROM m").fetchall())
        assert emitted.items() <= found.items()
        return emitted, {end: n for end, n in found.items() if end not in emitted}


def test_frames_of_10_seconds_become_frames_of_15_seconds() -> None:
    """The frame that ends at 1:10 goes into the one that ends at 1:15, the frames of 1:20 and 1:30
    into the one of 1:30, with the events of 1:11 and 1:13: the window from 1:15 to 2:15 has
    these two too many."""
    emitted, found = replaced(
        "HOP(TABLE s, DESCRIPTOR(ts), 60, 10)",
        "HOP(TABLE s, DESCRIPTOR(ts), 60, 15)",
        [62, 71, 73, 82, 85],
        [151],
    )
    assert emitted == {70: 1, 80: 3}
    assert found == {90: 5, 105: 5, 120: 5, 135: 4, 165: 1, 180: 1, 195: 1, 210: 1}


def test_a_longer_window_misses_what_the_shorter_one_no_longer_needed() -> None:
    """20 seconds become 30: the window from 1:00 to 1:30 lacks the first of its frames, with the
    events of 1:01 and 1:05; the window at 1:40 is right."""
    before = [55, 58, 61, 65, 71, 77, 81]
    after = [84, 92, 99, 101]
    emitted, found = replaced(
        "HOP(TABLE s, DESCRIPTOR(ts), 20, 10)",
        "HOP(TABLE s, DESCRIPTOR(ts), 30, 10)",
        before,
        after,
    )
    assert emitted == {60: 2, 70: 4, 80: 4}
    assert found == {90: 4, 100: 6, 110: 5, 120: 3, 130: 1}


def test_a_shorter_window_misses_nothing() -> None:
    before = [55, 58, 61, 65, 71, 77, 81]
    after = [84, 92, 99, 101]
    _, found = replaced(
        "HOP(TABLE s, DESCRIPTOR(ts), 30, 10)",
        "HOP(TABLE s, DESCRIPTOR(ts), 20, 10)",
        before,
        after,
    )
    assert found == {90: 4, 100: 4, 110: 3, 120: 1}


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("k", "SUM(v)", "computes SUM(v), where it was COUNT(*)"),
        ("k", "MAX(v)", "computes MAX(v), where it was COUNT(*)"),
        ("k % 2", "COUNT(*)", "groups by k % 2 BIGINT, where it was k BIGINT"),
        ("CAST(k AS VARCHAR)", "COUNT(*)", "groups by CAST(k AS VARCHAR) VARCHAR"),
    ],
)
def test_another_aggregate_or_key_is_refused(key: str, value: str, reason: str) -> None:
    """State is used again where keys and aggregates are the same, and dropped where the user says
    so."""
    query = (
        "INSERT INTO m SELECT window_end * 100 + CAST({0} AS BIGINT), {1} "
        "FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), 10)) GROUP BY window_end, {0}"
    )
    with streaming(2, columns="n") as (connection, writer):
        connection.execute(f"CREATE JOB j AS {query.format('k', 'COUNT(*)')}")
        put(connection, writer, [(1, 3, 5), (2, 4, 6)])
        connection.execute("CREATE SNAPSHOT s FOR JOB j", timeout=PATIENCE)
        changed = query.format(key, value)
        with pytest.raises(runnel.OperationalError, match="its plan has changed") as caught:
            connection.execute(f"ALTER JOB j AS {changed}", timeout=PATIENCE)
        assert reason in str(caught.value.detail)
        connection.execute(
            f"ALTER JOB j OPTIONS ('incompatibleState' = 'empty') AS {changed}", timeout=PATIENCE
        )
        writer.write([(1, 5, 50)])
        writer.close()
        connection.job("j").join(PATIENCE)
        found = connection.execute("SELECT * FROM m").fetchall()
        assert found == [(1001, 50 if key == "k" and value != "COUNT(*)" else 1)]


@pytest.fixture
def world() -> Iterator[World]:
    steps.WORLDS["seeds"] = world = World()
    yield world
    del steps.WORLDS["seeds"]


def longer(*names: str) -> DAG:
    """Numbers, their running sums by each of the vertices after the other, and a sink."""
    dag = DAG()
    last = dag.vertex("numbers", steps.numbers_of("seeds"), 1)
    for name in names:
        adder = dag.vertex(name, steps.Adders(), 1)
        dag.edge(between(last, adder))
        last = adder
    sink = dag.vertex("keep", steps.kept_in("seeds"), 1)
    return dag.edge(between(last, sink))


def reaches(world: World, job: Any, limit: int, expected: list[int]) -> None:
    """The rows that are committed once the numbers below the limit were read."""
    world.give(limit)

    def is_there() -> bool:
        job.export_snapshot("point", PATIENCE)
        return world.rows == expected

    assert eventually(is_there), world.rows


def test_a_new_vertex_begins_without_state(connection: Connection, world: World) -> None:
    """The vertex "add" continues at 3; "more", which has no state in the snapshot, at 0."""
    job = connection.submit(longer("add"), name="j", guarantee="exactlyOnce")
    reaches(world, job, 3, [0, 1, 3])
    job.update(longer("add", "more"), timeout=PATIENCE)
    reaches(world, job, 5, [0, 1, 3, 6, 16])


def test_an_exported_snapshot_forks_the_job(connection: Connection, world: World) -> None:
    """The job continues after the export, and another one begins with the snapshot."""
    job = connection.submit(longer("add"), name="j", guarantee="exactlyOnce")
    reaches(world, job, 3, [0, 1, 3])
    job.export_snapshot("fork", PATIENCE)
    assert job.status is JobStatus.RUNNING
    other = connection.submit(
        longer("add"),
        name="k",
        guarantee="exactlyOnce",
        options={"initialSnapshotName": "fork"},
    )
    world.give(5, ends=True)
    job.join(PATIENCE)
    other.join(PATIENCE)
    assert world.committed[str(job.id)] == [0, 1, 3, 6, 10]
    assert world.committed[str(other.id)] == [6, 10]


SHOWN: list[int] = []
"""The rows that came to a sink without transactions."""


def show(batch: Any) -> None:
    SHOWN.extend(batch.column(0).to_pylist())


def test_a_shutdown_repeats_no_row_even_at_least_once(tmp_path: Path, world: World) -> None:
    """The last snapshot is taken after the last row was processed, although the source never
    stops."""
    SHOWN.clear()
    dag = DAG()
    source = dag.vertex("numbers", steps.numbers_of("seeds"), 1)
    dag.edge(between(source, dag.vertex("show", sink_to(show), 1)))
    world.give(10**9)
    for number in range(4):
        before = len(SHOWN)
        with runnel.connect(tmp_path / "directory") as connection:
            if number == 0:
                connection.submit(dag, name="j", guarantee="atLeastOnce")
            assert eventually(lambda: len(SHOWN) > before + 5)  # noqa: B023
    assert list(range(len(SHOWN))) == SHOWN


def test_a_sink_without_transactions_lowers_the_guarantee(
    connection: Connection, world: World
) -> None:
    """SHOW JOBS has the guarantee of the whole job."""
    shown = {}
    for name, sink in (("plain", sink_to(show)), ("commits", steps.kept_in("seeds"))):
        dag = DAG()
        source = dag.vertex("numbers", steps.numbers_of("seeds"), 1)
        dag.edge(between(source, dag.vertex("sink", sink, 1)))
        connection.submit(dag, name=name, guarantee="exactlyOnce")
    cursor = connection.execute("SHOW JOBS FULL")
    assert cursor.description is not None
    columns = [column.name for column in cursor.description]
    for row in cursor.fetchall():
        values = dict(zip(columns, row, strict=True))
        shown[values["name"]] = values["guarantee"]
    assert shown == {"plain": "atLeastOnce", "commits": "exactlyOnce"}


def test_paths_of_a_source_and_a_sink_change_while_a_job_is_suspended(
    connection: Connection, tmp_path: Path
) -> None:
    """The job resumes with its position, in the folders that the mappings now name."""

    def mapping(name: str, folder: str, more: str = "") -> str:
        (tmp_path / folder).mkdir(exist_ok=True)
        return (
            f"CREATE OR REPLACE MAPPING {name} (k BIGINT) TYPE File OPTIONS ('format' = 'csv', "
            f"'path' = '{tmp_path / folder}'{more})"
        )

    def rows() -> list[tuple[Any, ...]]:
        return connection.execute("SELECT k FROM sink ORDER BY k").fetchall()

    follow = ", 'follow' = 'true', 'pollMillis' = '1', 'ignoreFileNotFound' = 'true'"
    connection.execute(mapping("source", "a", follow))
    connection.execute(mapping("sink", "out", ", 'ignoreFileNotFound' = 'true'"))
    (tmp_path / "a" / "1.csv").write_text("k\n1\n2\n")
    connection.execute(
        "CREATE JOB j OPTIONS ('snapshotIntervalMillis' = '10') AS INSERT INTO sink "
        "SELECT k FROM source"
    )
    assert eventually(lambda: rows() == [(1,), (2,)])
    connection.execute("ALTER JOB j SUSPEND", timeout=PATIENCE)
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "b" / "2.csv").write_text("k\n3\n")
    connection.execute(mapping("source", "b", follow))
    connection.execute(mapping("sink", "other", ", 'ignoreFileNotFound' = 'true'"))
    connection.execute("ALTER JOB j RESUME", timeout=PATIENCE)
    assert eventually(lambda: rows() == [(3,)]), "not 1 and 2 again"


class Blocking(Counter):
    """A source that blocks in a call until it may continue."""

    cooperative = False
    entered, free = threading.Event(), threading.Event()

    def complete(self) -> bool:
        self.entered.set()
        assert self.free.wait(PATIENCE)
        return super().complete()


@storable()
def blocking() -> Any:
    return lambda: Blocking(steps.WORLDS["seeds"])


def test_a_snapshot_waits_for_a_call_to_return(connection: Connection, world: World) -> None:
    Blocking.entered.clear()
    Blocking.free.clear()
    dag = DAG()
    read = dag.vertex("numbers", blocking(), 1)
    dag.edge(between(read, dag.vertex("keep", steps.kept_in("seeds"), 1)))
    job = connection.submit(dag, name="j", guarantee="exactlyOnce")
    done: list[bool] = []
    try:
        assert Blocking.entered.wait(PATIENCE)
        run = job._lifecycle.run
        assert run is not None and run.coordinator.request(on_done=done.append) is not None
        assert connection.execute("SELECT 1").fetchall() == [(1,)], "other jobs run meanwhile"
        assert done == []
    finally:
        Blocking.free.set()
    assert eventually(lambda: done == [True])
    world.give(2, ends=True)
    job.join(PATIENCE)
    assert world.rows == [0, 1]
