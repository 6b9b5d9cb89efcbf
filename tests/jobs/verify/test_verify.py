"""VERIFY JOB: what a job has written beside what a bounded query gives of the same input."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel import Connection, JobStatus
from runnel.catalog import Table, TableColumn
from runnel.connector import (
    Connector,
    MappingDefinition,
    Sink,
    SinkRequest,
    Token,
    WritableTable,
    WriteMode,
)
from runnel.errors import OperationalError
from runnel.named_jobs.named_job import NamedJob
from runnel.serving.server import Server
from runnel.sqltypes import BIGINT
from tests.effort import some
from tests.jobs.feeds import PATIENCE, Feed, FeedConnector
from tests.waiting import eventually

COUNTS = (
    "SELECT window_end, k, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 10)) "
    "GROUP BY window_end, k"
)
SINKS = {
    "DuckDB": "(e BIGINT, k BIGINT, n BIGINT) TYPE DuckDB",
    "IMap": (
        '(e BIGINT EXTERNAL NAME "__key.e", k BIGINT EXTERNAL NAME "__key.k", n BIGINT) TYPE IMap '
        "OPTIONS ('keyFormat'='json-flat', 'valueFormat'='json-flat')"
    ),
    "csv": "(e BIGINT, k BIGINT, n BIGINT) TYPE File OPTIONS ('path'='{place}', 'format'='csv')",
    "json": (
        "(e BIGINT, k BIGINT, n BIGINT) TYPE File OPTIONS ('path'='{place}', 'format'='json-flat')"
    ),
    "parquet": (
        "(e BIGINT, k BIGINT, n BIGINT) TYPE File OPTIONS ('path'='{place}', 'format'='parquet')"
    ),
}


class Bench:
    """A stream `t` of two feeds, in a connection to a directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.feeds = (Feed(), Feed())
        self.connection: Connection = runnel.connect(folder / "kept")
        connector = FeedConnector(t=self.feeds, u=(self.feeds[0],))
        connector.idle_timeout = 0  # on a slow machine what follows a pause would be late
        self.connection.add_connector(connector)
        self.connection.execute("CREATE MAPPING t TYPE Feed")

    def sink(self, kind: str = "DuckDB", name: str = "out") -> None:
        definition = SINKS.get(kind, kind).format(place=self.folder / "written")
        self.connection.execute(f"CREATE MAPPING {name} {definition}")

    def start(
        self, query: str = COUNTS, write: str = "INSERT INTO", options: str = ""
    ) -> runnel.NamedJob:
        given = f"OPTIONS ('snapshotIntervalMillis'='3600000'{options})"
        self.connection.execute(f"CREATE JOB j {given} AS {write} out {query}")
        return self.connection.job("j")

    def give(self, *rows: tuple[int, int]) -> None:
        for number, row in enumerate(rows):
            self.feeds[number % 2].give(row)

    def until(self, job: runnel.NamedJob, count: int | None = None) -> None:
        """The job has read all that was given, or so many rows that it wants."""
        wanted = sum(len(feed.rows) for feed in self.feeds) if count is None else count
        assert eventually(lambda: job.rows_in == wanted), job.rows_in

    def verify(self, options: str = "") -> list[tuple[Any, ...]]:
        return self.connection.execute(f"VERIFY JOB j {options}", timeout=PATIENCE).fetchall()

    def same(self, options: str = "") -> int:
        """How many rows were compared, of which none differs."""
        (row,) = self.verify(options)
        assert row[0] == "equal" and row[2] is None, row
        return int(row[1])

    def change(self, sql: str) -> None:
        self.connection.execute(sql)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.connection.close()


ROWS = [(i % 3, i) for i in range(50)]


@pytest.mark.parametrize("kind", SINKS)
def test_a_sink_that_has_what_it_should(bench: Bench, kind: str) -> None:
    bench.sink(kind)
    job = bench.start(write="SINK INTO" if kind == "IMap" else "INSERT INTO")
    bench.give(*ROWS)
    bench.until(job)
    assert bench.same() == 12  # the windows that end at 10, 20, 30, 40, of three keys each
    bench.give((0, 70), (1, 70))
    bench.until(job)
    assert bench.same() == 15 + 3 - 3
    bench.connection.execute("ALTER JOB j SUSPEND")
    assert bench.same() == 15
    bench.connection.execute("ALTER JOB j RESUME")
    for feed in bench.feeds:
        feed.end()
    job.join(PATIENCE)
    assert bench.same() == 17


@pytest.mark.parametrize("kind", ["DuckDB", "IMap"])
def test_what_was_tampered_with_is_shown(bench: Bench, kind: str) -> None:
    bench.sink(kind)
    job = bench.start(write="SINK INTO")
    bench.give(*ROWS)
    bench.until(job)
    bench.connection.execute("ALTER JOB j SUSPEND")
    assert bench.same() == 12
    bench.change("DELETE FROM out WHERE e = 10 AND k = 0")
    bench.change("UPDATE out SET n = 99 WHERE e = 20 AND k = 1")
    bench.change("INSERT INTO out VALUES (30, 7, 5)")
    first, *rest = bench.verify()
    assert first[:3] == ("different", 4, None) and "10 rows are equal" in first[3]
    assert sorted(row[:3] for row in rest) == [
        ("only in the replay", 1, "e=10, k=0, n=4"),
        ("only in the replay", 1, "e=20, k=1, n=4"),
        ("only in the sink", 1, "e=20, k=1, n=99"),
        ("only in the sink", 1, "e=30, k=7, n=5"),
    ]
    assert job.status is JobStatus.SUSPENDED


def test_rows_that_are_there_too_often(bench: Bench) -> None:
    bench.sink()
    job = bench.start()
    bench.give(*ROWS)
    bench.until(job)
    bench.connection.execute("ALTER JOB j SUSPEND")
    bench.change("INSERT INTO out VALUES (10, 0, 4), (10, 0, 4), (60, 1, 1)")
    assert [row[:3] for row in bench.verify()] == [
        ("different", 2, None),
        ("only in the sink", 2, "e=10, k=0, n=4"),
    ]


def test_only_so_many_rows_are_shown(bench: Bench) -> None:
    bench.sink()
    bench.start()
    bench.give((1, 1), (1, 1), (1, 3000), (1, 3000))
    bench.until(bench.connection.job("j"))
    bench.connection.execute("ALTER JOB j SUSPEND")
    bench.change("INSERT INTO out SELECT 10, v, v FROM TABLE(GENERATE_SERIES(100, 1099)) AS x(v)")
    first, *rest = bench.verify()
    assert first[:2] == ("different", 1000) and "1 rows are equal" in first[3] and len(rest) == 20
    assert rest[0][2] == "e=10, k=100, n=100"


def test_rows_as_they_are(bench: Bench) -> None:
    bench.sink("(k BIGINT, ts BIGINT) TYPE DuckDB")
    job = bench.start("SELECT k, ts FROM t WHERE k > 0")
    bench.give(*ROWS)
    bench.until(job, 33)
    assert bench.same() == 33
    bench.give((2, 3), (1, 1))
    bench.until(job, 35)
    assert bench.same() == 35


def test_the_last_of_each_key(bench: Bench) -> None:
    bench.sink(
        "(__key BIGINT, this BIGINT) TYPE IMap OPTIONS ('keyFormat'='bigint', "
        "'valueFormat'='bigint')"
    )
    job = bench.start(
        "SELECT k, SUM(ts) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 10)) GROUP BY window_end, k",
        write="SINK INTO",
    )
    bench.give(*ROWS)
    bench.until(job)
    assert bench.same() == 3
    bench.connection.execute("ALTER JOB j SUSPEND")
    bench.change("UPDATE out SET this = this + 1 WHERE __key = 2")
    was = sum(i for i in range(30, 40) if i % 3 == 2)
    assert [row[:3] for row in bench.verify()] == [
        ("different", 2, None),
        ("only in the replay", 1, f"__key=2, this={was}"),
        ("only in the sink", 1, f"__key=2, this={was + 1}"),
    ]


def test_sums_of_floating_point_numbers_may_differ_in_their_last_digits(bench: Bench) -> None:
    bench.sink("(e BIGINT, k BIGINT, x DOUBLE) TYPE DuckDB")
    job = bench.start(COUNTS.replace("COUNT(*)", "SUM(CAST(ts AS DOUBLE) / 7)"))
    bench.give(*ROWS)
    bench.until(job)
    assert bench.same() == 12
    bench.connection.execute("ALTER JOB j SUSPEND")
    bench.change("UPDATE out SET x = x * 1.0000000000001e0 WHERE e = 10")
    assert bench.same() == 12
    bench.change("UPDATE out SET x = x * 1.00001e0 WHERE e = 20 AND k = 1")
    found = bench.verify()
    assert [row[0] for row in found] == [
        "different",
        "only in the replay",
        "only in the sink",
    ] and "11 rows are equal" in found[0][3]


def test_late_rows_are_told(bench: Bench) -> None:
    bench.connection.execute("CREATE MAPPING u TYPE Feed")
    bench.sink()
    job = bench.start(COUNTS.replace("TABLE t", "TABLE u"))
    for row in [(1, 1), (1, 25), (1, 2), (1, 40)]:
        bench.feeds[0].give(row)
        bench.until(job)
        bench.connection.execute(
            "CREATE OR REPLACE SNAPSHOT s FOR JOB j"
        )  # the watermark has come to the end
    assert eventually(lambda: job.late_rows == 1)
    job.restart(PATIENCE)  # they are told after that too
    first, *rest = bench.verify()
    assert first[0] == "different" and "late rows: 1; differences there are expected" in first[3]
    assert sorted(row[:3] for row in rest) == [
        ("only in the replay", 1, "e=10, k=1, n=2"),
        ("only in the sink", 1, "e=10, k=1, n=1"),
    ]


def test_a_job_that_runs_goes_on(bench: Bench) -> None:
    bench.sink()
    job = bench.start()
    run = job._lifecycle.run
    bench.give(*ROWS)
    bench.until(job)
    bench.verify()
    assert (
        job.status is JobStatus.RUNNING and job._lifecycle.run is run and job.record.restarts == 0
    )


def test_joins(bench: Bench) -> None:
    bench.sink("(a BIGINT, b BIGINT, k BIGINT) TYPE DuckDB")
    job = bench.start(
        "SELECT x.ts, y.ts, x.k FROM t AS x JOIN t AS y ON x.k = y.k AND y.ts BETWEEN x.ts AND "
        "x.ts + 5"
    )
    bench.give(*ROWS)
    bench.until(job)
    assert bench.same() > 50


class Hole(Connector):
    """What is written is gone."""

    name = "Hole"

    def open(self, definition: MappingDefinition) -> Table:
        return HoleTable(definition.name)


class HoleTable(WritableTable):
    connector = "Hole"
    columns = (TableColumn("k", BIGINT),)
    write_modes = frozenset({WriteMode.INSERT})

    def __init__(self, name: str) -> None:
        self.name = name

    def row_count(self) -> int | None:
        return None

    def sink(self, request: SinkRequest) -> Sink:
        return HoleSink()


class HoleSink(Sink):
    def write(self, batch: pa.RecordBatch) -> None:
        """Forgets it."""

    def stage(self, epoch: int) -> Token:
        return {}

    def commit(self, token: Token) -> None:
        """Nothing to show."""

    def abort(self, token: Token | None) -> None:
        """Nothing to take back."""


def refused(
    run: Callable[[], object], kind: type[runnel.Error] = runnel.NotSupportedError
) -> runnel.Error:
    with pytest.raises(kind) as caught:
        run()
    assert caught.value.hint
    return caught.value


def test_a_pushed_stream_is_not_kept(bench: Bench) -> None:
    bench.connection.register_stream("s", pa.schema([("k", pa.int64())]))
    bench.sink("(k BIGINT) TYPE DuckDB")
    bench.start("SELECT k FROM s")
    error = refused(bench.verify)
    assert error.message == 'job "j" can\'t be verified: what it has read of "s" is not stored'


def test_a_sink_that_nobody_can_read(bench: Bench) -> None:
    bench.connection.add_connector(Hole())
    bench.connection.execute("CREATE MAPPING h (k BIGINT) TYPE Hole")
    bench.connection.execute("CREATE JOB j AS INSERT INTO h SELECT k FROM t")
    error = refused(bench.verify, runnel.OperationalError)
    assert error.message == 'the rows of "h" can\'t be read back'


def test_other_refusals(bench: Bench) -> None:
    assert "not found" in refused(bench.verify, runnel.ProgrammingError).message
    bench.sink("(k BIGINT, x DOUBLE) TYPE DuckDB")
    bench.start("SELECT k, RAND() FROM t")
    assert "RAND" in refused(bench.verify).message
    bench.connection.execute("DROP JOB j")
    bench.start("SELECT k, ts FROM t LIMIT 3")
    assert "LIMIT" in refused(bench.verify).message
    bench.connection.execute("DROP JOB j")
    bench.start("SELECT k, ts FROM t", options=", 'processingGuarantee'='atLeastOnce'")
    error = refused(bench.verify, runnel.OperationalError)
    assert error.hint == "ALTER JOB j SUSPEND first"
    bench.connection.execute("ALTER JOB j SUSPEND")
    assert bench.same() == 0
    bench.connection.execute("DROP JOB j")
    job = bench.start("SELECT k, ts FROM t")
    job.cancel()
    assert "has ended" in refused(bench.verify, runnel.OperationalError).message


SHAPES = {
    "sessions": COUNTS.replace(
        "TUMBLE(TABLE t, DESCRIPTOR(ts), 10)", "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), 3)"
    ),
    "a bound that is lost": COUNTS.replace("SELECT window_end, k,", "SELECT k, 1,"),
    "windows of windows": f"SELECT e, MAX(n), SUM(n) FROM ({COUNTS}) AS w(e, k, n) GROUP BY e",
    "top rows": (
        f"SELECT e, k, n FROM ({COUNTS}) AS w(e, k, n) "
        "QUALIFY RANK() OVER (PARTITION BY e ORDER BY n DESC) = 1"
    ),
    "distinct": "SELECT DISTINCT ts, k, 1 FROM t",
    "union": "SELECT ts, k, 0 FROM t WHERE k = 1 UNION ALL SELECT ts, k, 1 FROM t WHERE k <> 1",
    "outer join": (
        "SELECT x.ts, x.k, y.ts FROM t AS x LEFT JOIN t AS y ON x.k = y.k AND y.ts BETWEEN x.ts + "
        "1 AND x.ts + 2"
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_queries_of_every_shape(bench: Bench, shape: str) -> None:
    bench.sink()
    job = bench.start(SHAPES[shape])
    chance, now = random.Random(shape), 0
    for _ in range(2):
        for _ in range(18):
            now += chance.randrange(4)
            bench.give((chance.randrange(3), now), (chance.randrange(3), now))
        bench.same()
    job.restart(PATIENCE)
    bench.same()
    for feed in bench.feeds:
        feed.end()
    job.join(PATIENCE)
    every = bench.same()
    assert every > 5 and job.late_in_all == 0
    assert bench.same("OPTIONS ('sample' = '60 %')") <= every


@pytest.mark.parametrize("seed", some(range(4), 2))
def test_whatever_happens_to_a_job_it_has_what_it_should(bench: Bench, seed: int) -> None:
    chance = random.Random(seed)
    windows = chance.choice(
        ["TUMBLE(TABLE t, DESCRIPTOR(ts), 10)", "HOP(TABLE t, DESCRIPTOR(ts), 10, 5)"]
    )
    bench.sink(chance.choice(list(SINKS)))
    bench.start(COUNTS.replace("TUMBLE(TABLE t, DESCRIPTOR(ts), 10)", windows), write="SINK INTO")
    job, now = bench.connection.job("j"), 0
    for _ in range(12):
        match chance.randrange(6):
            case 0:
                job.restart(PATIENCE)
            case 1:
                job.suspend(PATIENCE)
                bench.same()
                job.resume()
            case 2:
                bench.same()
            case _:
                for _ in range(chance.randrange(1, 20)):
                    now += chance.randrange(4)
                    bench.give((chance.randrange(3), now), (chance.randrange(3), now))
    for feed in bench.feeds:
        feed.end()
    job.join(PATIENCE)
    assert bench.same() > 0 and job.late_in_all == 0


def test_it_may_be_cancelled_and_timed_out(bench: Bench) -> None:
    bench.sink("(a BIGINT) TYPE DuckDB")
    given = "OPTIONS ('processingGuarantee'='none')"
    bench.connection.execute(
        f"CREATE JOB j {given} AS INSERT INTO out SELECT v "
        "FROM TABLE(GENERATE_SERIES(1, 400000)) AS x(v)"
    )
    bench.connection.job("j").join(PATIENCE)
    with pytest.raises(runnel.OperationalError) as caught:
        bench.connection.execute("VERIFY JOB j", timeout=0.01)
    assert caught.value.code.name == "TIMEOUT"
    cursor = bench.connection.cursor()
    errors: list[runnel.Error] = []

    def run() -> None:
        try:
            cursor.execute("VERIFY JOB j")
        except runnel.Error as error:
            errors.append(error)

    thread = Thread(target=run)
    thread.start()
    assert eventually(lambda: cursor.progress() is not None or not thread.is_alive())
    cursor.cancel()
    thread.join(PATIENCE)
    assert [error.code.name for error in errors] == ["CANCELLED"]


def test_through_a_server(bench: Bench) -> None:
    bench.sink()
    job = bench.start()
    bench.give(*ROWS)
    bench.until(job)
    token = "a token for tests"
    server = Server(bench.connection, token)
    with runnel.connect(server.url, token=token) as remote:
        cursor = remote.execute("VERIFY JOB j")
        assert [column[0] for column in cursor.description or ()] == [
            "result",
            "rows",
            "row",
            "note",
        ]
        (row,) = cursor.fetchall()
        assert row[:2] == ("equal", 12)
    server.stop()


VALUES = {
    "BIGINT[]": "ARRAY[k, ts]",
    "ROW(x BIGINT, y VARCHAR)": "CAST(ROW(k, 'x') AS ROW(x BIGINT, y VARCHAR))",
    "MAP(VARCHAR, BIGINT)": "MAP(ARRAY['a'], ARRAY[k])",
    "JSON": "CAST('{\"a\": 1}' AS JSON)",
    "UUID": "CAST('6f3b2c1e-0000-4000-8000-000000000001' AS UUID)",
    "INTERVAL": "INTERVAL '1' DAY",
    "VARBINARY": "X'6162'",
    "DOUBLE": "CASE k WHEN 0 THEN CAST('NaN' AS DOUBLE) WHEN 1 THEN -0.0e0 END",
    "REAL": "CAST(ts AS REAL) / 3",
    "DECIMAL(20,4)": "CAST(ts AS DECIMAL(20,4)) / 3",
    "TIME": "CAST('10:00:00' AS TIME)",
    "BOOLEAN": "NULLIF(k = 1, k = 2)",
    "VARCHAR": "CASE k WHEN 1 THEN '' WHEN 2 THEN 'a,\"b' END",
}


def test_values_of_every_type(bench: Bench) -> None:
    columns = ", ".join(f"v{number} {kind}" for number, kind in enumerate(VALUES))
    bench.sink(f"(k BIGINT, {columns}) TYPE DuckDB")
    job = bench.start(f"SELECT k, {', '.join(VALUES.values())} FROM t")
    bench.give(*ROWS)
    bench.until(job)
    assert bench.same() == 50
    bench.connection.execute("ALTER JOB j SUSPEND")
    bench.change("DELETE FROM out WHERE k = 1")
    first, *rest = bench.verify()
    assert first[:2] == ("different", 17) and {row[0] for row in rest} == {"only in the replay"}


def test_arguments_are_those_of_the_job(bench: Bench) -> None:
    bench.sink()
    bench.connection.execute(
        "CREATE JOB j AS INSERT INTO out SELECT ts, k, ? FROM t WHERE k > ?", (7, 0)
    )
    bench.give(*ROWS)
    bench.until(bench.connection.job("j"), 33)
    assert bench.same() == 33


@pytest.mark.parametrize("clause", ["EMIT EVERY INTERVAL '0.1' SECOND", "ALLOWED LATENESS 5"])
def test_results_that_are_given_more_than_once(bench: Bench, clause: str) -> None:
    bench.sink("IMap")
    job = bench.start(f"{COUNTS} {clause}", write="SINK INTO")
    bench.give(*ROWS)
    bench.until(job)
    assert bench.same() == 12
    bench.connection.execute("DROP JOB j")
    bench.sink("DuckDB", "again")
    bench.connection.execute(f"CREATE JOB j AS INSERT INTO again {COUNTS} {clause}")
    assert "only if its sink has a key" in refused(bench.verify).message


def test_late_rows_are_not_written_again(bench: Bench) -> None:
    bench.connection.execute("CREATE MAPPING u TYPE Feed")
    bench.connection.execute("CREATE MAPPING late (k BIGINT, ts BIGINT) TYPE DuckDB")
    bench.sink()
    job = bench.start(COUNTS.replace("TABLE t", "TABLE u") + " LATE DATA INTO late")
    for row in [(1, 1), (1, 25), (1, 2), (1, 40)]:
        bench.feeds[0].give(row)
        bench.until(job)
        bench.connection.execute("CREATE OR REPLACE SNAPSHOT s FOR JOB j")
    assert bench.verify()[0][0] == "different"
    assert bench.connection.execute("SELECT * FROM late").fetchall() == [(1, 2)]


def test_a_job_with_another_query_than_it_began_with(bench: Bench) -> None:
    bench.sink()
    bench.start()
    bench.connection.execute(f"ALTER JOB j AS INSERT INTO out {COUNTS} HAVING COUNT(*) > 1")
    assert "the state of another query" in refused(bench.verify).message


def test_a_query_that_could_not_start_leaves_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job goes on with the query that it had, and can be verified as before."""
    bench.sink()
    job = bench.start()
    bench.give(*ROWS)
    bench.until(job)
    same = bench.same()
    changed = job.record.query.replace("COUNT(*)", "COUNT(*) + 1")
    assert changed != job.record.query
    resume, errors = NamedJob.resume, [OperationalError("not now")]

    def fails_once(self: NamedJob) -> None:
        if errors:
            raise errors.pop()
        resume(self)

    monkeypatch.setattr(NamedJob, "resume", fails_once)
    with pytest.raises(runnel.OperationalError, match="not now"):
        bench.connection.execute(f"ALTER JOB j AS {changed}", timeout=PATIENCE)
    assert not errors and job.status is JobStatus.RUNNING
    assert bench.same() == same


def test_a_query_that_fails_takes_no_other_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two ALTERs at once the one that fails puts back what was there before it, not what the
    other has made of it."""
    bench.sink()
    job = bench.start()
    first, second = (job.record.query.replace("COUNT(*)", f"COUNT(*) + {i}") for i in (1, 2))
    other = Thread(
        target=lambda: bench.connection.cursor().execute(
            f"ALTER JOB j AS {second}", timeout=PATIENCE
        )
    )
    resume, errors = NamedJob.resume, [OperationalError("not now")]

    def fails_once(self: NamedJob) -> None:
        if errors:
            other.start()
            other.join(0.3)  # it should wait
            raise errors.pop()
        resume(self)

    monkeypatch.setattr(NamedJob, "resume", fails_once)
    with pytest.raises(runnel.OperationalError, match="not now"):
        bench.connection.execute(f"ALTER JOB j AS {first}", timeout=PATIENCE)
    other.join(PATIENCE)
    assert not other.is_alive() and job.record.query == second and job.status is JobStatus.RUNNING
