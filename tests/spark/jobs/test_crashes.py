"""Jobs on Spark whose process is killed: at whatever step to the files of the directory and the
sinks, the next one comes to the rows that there would have been without it, each once where the
sink promises that. The steps at which it matters which of them comes first are tried with one job
each; with RUNNEL_TESTS=all each step is tried with each sink, and some steps of the process that
comes next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import runnel
from runnel.connectors.imap.sink import MapSink
from runnel.connectors.spark import options as spark_options
from runnel.connectors.spark import versioned_sink as spark_version_sink
from runnel.connectors.spark.jobs.sink import JobSink
from runnel.storage.durable_files import unsealed
from tests.effort import takes_long
from tests.spark.jobs.crash_images import COUNTED, STAGED, WRITTEN, Held, Images
from tests.spark.jobs.crashing_world import KINDS, STAND_INS, WINDOWS, World
from tests.spark.jobs.test_lakes import SOURCES, stand_in
from tests.spark.jobs.test_sinks import table_of
from tests.spark.jobs.test_streaming import Feed, follow, until

Sinks = tuple[Sequence[str], Sequence[str]]
"""Those of jobs over a stream, and of jobs over a table."""

WORLDS: Sequence[Sinks] = [([WINDOWS], []), *[([name], [name]) for name in KINDS]]
PLACES = {
    "s_windows": WRITTEN,
    "s_spark": COUNTED,
    "s_map": COUNTED,
    "s_delta": COUNTED,
    "t_ours": STAGED,
    "t_duckdb": STAGED,
    "t_iceberg": COUNTED,
}
"""Where jobs are cut short, by name."""


@pytest.fixture
def java(session: Any) -> int:
    from pyspark import SparkContext

    found: int = SparkContext._gateway.proc.pid
    return found


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "in")


def taken(world: World, images: Images) -> None:
    """Runs a world's jobs, which are cut short at some of their steps."""
    images.is_on = True
    world.feed()
    world.feed()
    connection = world.opened()
    try:
        wrong = world.finish(connection)
        assert not wrong, "without a crash: " + "; ".join(wrong)
        world.feed()
        world.bring_back(connection)
        world.finish(connection)
    finally:
        images.is_on = False
        connection.close()


def test_jobs_that_are_cut_short_between_two_steps(
    session: Any, java: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sinks = [[name[2:] for name in PLACES if name.startswith(kind)] for kind in ("s_", "t_")]
    world, held = World(tmp_path, session, (sinks[0], sinks[1]), has_late=True), Held(PLACES)
    for _ in range(3):
        world.feed()
    try:
        with monkeypatch.context() as patch:
            held.watch(patch)
            with world.opened():
                image = held.image(world.folder, tmp_path / "image", java)
        world.put(image)
        wrong = world.resumed(image)
    finally:
        world.clear()
    assert not wrong, "\n".join(wrong)


@takes_long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sinks", WORLDS, ids=lambda sinks: sinks[0][0])
def test_jobs_that_are_cut_short_at_any_step(
    session: Any, java: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sinks: Sinks
) -> None:
    world = World(tmp_path, session, sinks, has_late=False)
    # Until there is a job it doesn't matter where it is to write.
    images = Images(
        world.folder,
        tmp_path / "images",
        java,
        None,
        since="" if sinks is WORLDS[0] else "db/jobs/*",
    )
    again = Images(world.folder, tmp_path / "again", java, 1, seed=7)
    images.watch(monkeypatch)
    again.watch(monkeypatch)
    for name, source in zip(STAND_INS, SOURCES, strict=True):
        session.dataSource.register(stand_in(name))
        monkeypatch.setitem(spark_version_sink.SINKS, name, spark_version_sink.SINKS[source])  # type: ignore[index]
    monkeypatch.setattr(spark_options, "VERSIONED", (*spark_options.VERSIONED, *STAND_INS))
    wrong = []
    try:
        taken(world, images)
        given = world.given
        for image in images.kept:
            # Without what came while others were tried, which would be more with each of them.
            world.forget(given)
            world.put(image)
            # The process that comes next may be killed, too.
            again.is_on = image.number % 5 == 0
            wrong += world.resumed(image)
            again.is_on = False
            while again.kept:
                world.put(again.kept[-1])
                wrong += world.resumed(again.kept.pop())
    finally:
        world.clear()
    print(f"{len(images.kept)} images of {images.steps} steps, {again.steps} steps behind them")
    assert not wrong, "\n".join(wrong)


def test_a_job_whose_process_ended_while_spark_noted_its_first_batch(
    session: Any, tmp_path: Path, feed: Feed
) -> None:
    with runnel.connect(tmp_path / "db", spark=session) as connection:
        follow(connection, "events", feed.folder)
        connection.execute(
            "CREATE MAPPING m TYPE IMap OPTIONS ('keyFormat' = 'varchar', 'valueFormat' = 'bigint')"
        )
        connection.execute("""CREATE JOB j OPTIONS ('runtime' = 'spark',
            'snapshotIntervalMillis' = '50')
            AS INSERT INTO m SELECT k, v FROM events""")
        job = connection.job("j")
        job.suspend(60)
        noted = tmp_path / "db" / "jobs" / str(job.id) / "runtime" / "checkpoint" / "offsets"
        noted.mkdir(parents=True, exist_ok=True)
        for name in (".0.4a1c6d1e.tmp", "..0.4a1c6d1e.tmp.crc"):
            (noted / name).write_text("v1\n")
        job.resume()
        feed.add((1, "a", 1))
        until(lambda: connection.execute("SELECT * FROM m").fetchall() == [("a", 1)], job)
        assert job.error is None


def test_a_batch_that_is_refused_is_written_when_what_was_in_its_way_is_gone(
    session: Any, tmp_path: Path, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(job: runnel.Job) -> None:
        assert job.await_status(runnel.JobStatus.SUSPENDED, 60)
        assert isinstance(job.error, runnel.IntegrityError)
        assert job.error.message == "key 'b' exists already in map \"m\""
        assert (
            job.error.detail == 'batch 2 of the job is refused as a whole: no row of it is in "m"'
        )
        assert "ALTER JOB … RESUME, which writes the batch" in (job.error.hint or "")

    def rows(connection: runnel.Connection) -> list[Any]:
        return connection.execute("SELECT __key, this FROM m ORDER BY 1").fetchall()

    with runnel.connect(tmp_path / "db", spark=session) as connection:
        follow(connection, "events", feed.folder)
        connection.execute(
            "CREATE MAPPING m TYPE IMap OPTIONS ('keyFormat' = 'varchar', 'valueFormat' = 'bigint')"
        )
        connection.execute("INSERT INTO m VALUES ('b', 0)")
        feed.add((1, "a", 1))
        feed.add((2, "b", 2), (2, "c", 3))
        connection.execute("""CREATE JOB j OPTIONS ('runtime' = 'spark',
            'snapshotIntervalMillis' = '50')
            AS INSERT INTO m SELECT k, v FROM events""")
        job = connection.job("j")
        refused(job)
        kept = tmp_path / "db" / "jobs" / str(job.id) / "runtime" / "committed.json"
        assert unsealed(kept.read_bytes(), 2) == {"format": 2, "batch": 1, "token": None}
        with monkeypatch.context() as patch:  # the process ends before the batch is taken back
            patch.setattr(JobSink, "_take_back", lambda *_: None)
            patch.setattr(MapSink, "abort", lambda *_: None)
            job.resume()
            refused(job)
        assert unsealed(kept.read_bytes(), 2)["batch"] == 2
    with runnel.connect(tmp_path / "db", spark=session) as connection:
        job = connection.job("j")
        job.resume()
        refused(job)
        assert rows(connection) == [("a", 1), ("b", 0)]
        connection.execute("DELETE FROM m WHERE __key = 'b'")
        job.resume()
        feed.add((3, "d", 4))
        until(lambda: len(rows(connection)) == 4, job)
        assert rows(connection) == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
        feed.add((4, "a", 5))
        assert job.await_status(runnel.JobStatus.SUSPENDED, 60)
        connection.execute("DROP JOB j")
        assert table_of(connection, "m")._staging.lasting() == {}
