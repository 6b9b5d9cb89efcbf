"""Spark Connect: one server on the loopback interface for all of these tests, in the Java process
of the other ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import runnel
from tests.effort import takes_long
from tests.spark.jobs.test_streaming import Feed, follow, until
from tests.spark_process import missing, new_session
from tests.waiting import eventually

TOKEN = "s3cr3t-t0ken"


def lacking() -> str | None:
    """What is missing to have a server."""
    reason = missing()
    if reason is None and find_spec("grpc") is None:
        return (
            "the packages of Spark Connect are not installed: pip install 'runnel[spark_connect]'"
        )
    return reason


pytestmark = [
    pytest.mark.skipif(lacking() is not None, reason=str(lacking())),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


class Server:
    """A server, by its port."""

    def __init__(self, port: int) -> None:
        self.url = f"sc://localhost:{port}"
        self.full_url = f"{self.url}/;token={TOKEN}"

    def session(self) -> Any:
        """A session that a program makes."""
        from pyspark.sql.connect.session import SparkSession

        return SparkSession(connection=self.full_url)


SETTINGS = {
    "spark.connect.authenticate.token": TOKEN,
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    # A client's session has other settings than ours: they must not matter to what we ask.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.shuffle.partitions": "2",
    # Of a query that is being planned nothing can be cancelled: by the first report it is known to
    # be planned no more.
    "spark.connect.progress.reportInterval": "100ms",
}


class ServerProcess(Server):
    """A server in a process of its own, which can be killed."""

    def __init__(self, home: Path) -> None:
        self._process = subprocess.Popen(
            [
                sys.executable,
                str(Path(__file__).parent.with_name("connect_server.py")),
                TOKEN,
                f"spark.sql.warehouse.dir={home}/tables",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=home,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the server didn't start"
        super().__init__(int(line))

    def kill(self) -> None:
        """Ends it and its Java process at once."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """As Spark's plugin starts it, with settings for the sessions of its clients."""
    context = new_session({}).sparkContext
    settings = context._jsc.sc().conf()
    for name, value in SETTINGS.items():
        settings.set(name, value)
    service = getattr(
        getattr(context._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$"),
        "MODULE$",
    )
    service.start(context._jsc.sc())
    yield Server(service.localPort())
    for name in SETTINGS:
        settings.remove(name)


@pytest.fixture
def connection(server: Server, tmp_path: Path) -> Iterator[runnel.Connection]:
    with runnel.connect(tmp_path / "db", spark=server.full_url) as made:
        yield made


def plan(connection: runnel.Connection, sql: str) -> list[str]:
    return [line for (line,) in connection.execute(f"EXPLAIN (PHYSICAL) {sql}")]


VALUES = """SELECT * FROM VALUES
    (1, CAST('NaN' AS DOUBLE), CAST(12.50 AS DECIMAL(10, 2)), DATE '2024-02-29', 'ä',
    ARRAY(1, NULL)),
    (2, -0.0D, NULL, DATE '1969-12-31', '', NULL),
    (3, NULL, CAST(-1.25 AS DECIMAL(10, 2)), NULL, NULL, ARRAY()) AS t(id, f, d, day, s, a)"""


def test_queries_run_there_with_our_meaning(connection: runnel.Connection) -> None:
    quoted = VALUES.replace("'", "''")
    connection.execute(f"CREATE MAPPING t TYPE Spark OPTIONS ('query' = '{quoted}')")
    rows = connection.execute("SELECT id, d, day, s, a FROM t ORDER BY id").fetchall()
    assert [str(row) for row in rows] == [
        "(1, Decimal('12.50'), datetime.date(2024, 2, 29), 'ä', [1, None])",
        "(2, None, datetime.date(1969, 12, 31), '', None)",
        "(3, Decimal('-1.25'), None, None, [])",
    ]
    # NaN is the largest, NULL the smallest; and what is said of days is said in UTC, whatever the
    # session's zone.
    sql = "SELECT id, f = 0, CAST(CAST(day AS TIMESTAMP) AS VARCHAR) FROM t ORDER BY f DESC"
    assert plan(connection, sql)[0].startswith("Fragment on Spark")
    assert connection.execute(sql).fetchall() == [
        (1, False, "2024-02-29 00:00:00"),
        (2, True, "1969-12-31 00:00:00"),
        (3, None, None),
    ]
    connection.register("names", pa.table({"id": [1, 3], "name": ["one", "three"]}))
    connection.create_function(
        "twice", lambda number: 2 * number, ["INTEGER"], "INTEGER", scalar=True
    )
    sql = (
        "SELECT n.name, SUM(twice(t.id)) FROM t JOIN names n ON n.id = t.id GROUP BY n.name "
        "ORDER BY 1"
    )
    assert connection.execute(sql).fetchall() == [("one", 2), ("three", 6)]
    with pytest.raises(runnel.DataError, match="division by zero"):
        connection.execute("SELECT SUM(1 / (id - 1)) FROM t").fetchall()
    with pytest.raises(runnel.ProgrammingError, match="`nope` cannot be found"):
        connection.execute("CREATE MAPPING gone TYPE Spark OPTIONS ('table' = 'nope')")
    assert connection.execute("SELECT COUNT(*) FROM t").fetchall() == [(3,)]


def test_rows_stream_and_closing_cancels(connection: runnel.Connection) -> None:
    query = "SELECT id, CAST(id AS STRING) AS s FROM RANGE(0, 100000, 1, 5)"
    connection.execute(f"CREATE MAPPING numbers TYPE Spark OPTIONS ('query' = '{query}')")
    rows = connection.execute("SELECT * FROM numbers").fetchall()
    assert len(rows) == 100_000
    assert sum(row[0] for row in rows) == sum(range(100_000))
    assert len(connection.execute("SELECT id FROM numbers LIMIT 7").fetchall()) == 7
    # Of many tasks, as Spark lets one that has begun come to its end.
    endless = "SELECT MAX(id % 7) AS m FROM RANGE(0, 200000000000, 1, 4000)"
    connection.execute(f"CREATE MAPPING endless TYPE Spark OPTIONS ('query' = '{endless}')")
    client = runnel.connection._spark(connection._database).owner.get().own.client  # type: ignore[attr-defined]

    def running() -> int:
        found = client._get_operation_statuses().operation_statuses
        return sum("RUNNING" in type(item).OperationState.Name(item.state) for item in found)

    cursor = connection.execute("SELECT m FROM endless")
    assert eventually(lambda: running() > 0, longest=0.02)
    cursor.close()
    assert eventually(lambda: running() == 0, 60, 0.02)
    with pytest.raises(runnel.OperationalError, match="longer than its time-out"):
        connection.execute("SELECT m FROM endless", timeout=1).fetchall()
    assert eventually(lambda: running() == 0, 60, 0.02)


def test_a_session_of_the_program(server: Server) -> None:
    session = server.session()
    session.range(3).createOrReplaceTempView("mine")
    # In that session a division by zero is NULL, and it is nine hours later there.
    frame = session.sql(
        "SELECT id, 1 / 0 AS x, HOUR(TIMESTAMP '2024-01-01 12:00:00Z') AS h FROM mine"
    )
    with runnel.connect(spark=session) as connection:
        connection.register("frame", frame)
        assert connection.execute("SELECT * FROM frame ORDER BY id").fetchall() == [
            (i, None, 21) for i in range(3)
        ]
        assert connection.execute("SELECT SUM(id), MAX(h) FROM frame").fetchall() == [(3, 21)]
        connection.execute("CREATE MAPPING mine TYPE Spark OPTIONS ('table' = 'mine')")
        assert connection.execute("SELECT COUNT(*) FROM mine").fetchall() == [(3,)]
        with pytest.raises(runnel.ProgrammingError, match="belongs to another Spark session"):
            connection.register("other", server.session().range(1))
    left = [item.name for item in session.catalog.listTables() if item.isTemporary]
    assert left == ["mine"]
    assert session.catalog.listTables("global_temp", "runnel*") == []
    assert frame.count() == 3
    session.stop()
    with pytest.raises(runnel.OperationalError, match="is stopped"):
        runnel.connect(spark=session)


def test_writes_and_jobs(connection: runnel.Connection, server: Server, tmp_path: Path) -> None:
    session = server.session()
    session.sql(
        "CREATE TABLE kept_there (a STRING, id BIGINT, b DOUBLE DEFAULT 1.5) USING parquet"
    ).collect()
    connection.execute(
        "CREATE MAPPING written (id BIGINT, a VARCHAR) TYPE Spark OPTIONS ('table' = 'kept_there')"
    )
    (tmp_path / "out").mkdir()
    place = f"OPTIONS ('format' = 'parquet', 'path' = '{tmp_path}/out')"
    connection.execute(f"CREATE MAPPING files (id BIGINT, a VARCHAR) TYPE Spark {place}")
    numbers = "OPTIONS ('query' = 'SELECT id FROM RANGE(100)')"
    connection.execute(f"CREATE MAPPING numbers TYPE Spark {numbers}")
    assert connection.execute("INSERT INTO written VALUES (1, 'x'), (2, NULL)").rowcount == 2
    assert (
        connection.execute("INSERT INTO files SELECT id, 'n' FROM numbers WHERE id < 10").rowcount
        == 10
    )
    with pytest.raises(runnel.DataError, match="division by zero"):
        connection.execute("INSERT INTO files SELECT 10 / (id - 50), 'f' FROM numbers")
    assert connection.execute("SELECT COUNT(*) FROM files").fetchall() == [(10,)]
    connection.execute(
        "CREATE JOB a OPTIONS ('runtime' = 'spark') AS INSERT INTO written SELECT id, 'j' "
        "FROM numbers WHERE id >= 90"
    )
    connection.execute(
        "CREATE JOB b OPTIONS ('runtime' = 'spark') AS INSERT INTO files "
        "SELECT id / (id - 50), 'j' FROM numbers"
    )
    connection.job("a").join(120)
    with pytest.raises(runnel.DataError, match="division by zero"):
        connection.job("b").join(120)
    assert session.sql(
        "SELECT COUNT(*), SUM(id), SUM(b) FROM kept_there"
    ).toArrow().to_pylist() == [{"count(1)": 12, "sum(id)": 948, "sum(b)": 18.0}]
    assert connection.execute("SELECT COUNT(*) FROM files").fetchall() == [(10,)]
    rows = connection.execute("SHOW JOBS FULL")
    names = [item[0] for item in rows.description]
    shown = {row[1]: dict(zip(names, row, strict=True)) for row in rows.fetchall()}
    assert (shown["a"]["guarantee"], shown["a"]["rows_out"], shown["a"]["status"]) == (
        "atLeastOnce",
        10,
        "COMPLETED",
    )
    assert TOKEN not in str(shown)
    session.sql("DROP TABLE kept_there").collect()
    session.stop()


@pytest.fixture
def with_settings(server: Server, tmp_path: Path) -> Iterator[runnel.Connection]:
    """A connection whose session has a place of its own for checkpoints, as one of another machine
    must."""
    settings = {
        "spark.remote": server.full_url,
        "spark.sql.streaming.checkpointLocation": f"{tmp_path}/checkpoints",
    }
    with runnel.connect(tmp_path / "db", spark=settings) as made:
        yield made
    session = server.session()
    assert session.catalog.listTables("global_temp", "runnel*") == []
    session.stop()


def test_streams(with_settings: runnel.Connection, tmp_path: Path) -> None:
    connection = with_settings
    feed = Feed(tmp_path / "in")
    follow(connection, "events", feed.folder)
    feed.add((1, "a", 1), (2, "b", 2), (11, "a", 3))
    feed.add((31, "a", 5), (100, "z", 9))
    connection.execute(
        "CREATE MAPPING m TYPE IMap OPTIONS ('keyFormat' = 'varchar', 'valueFormat' = 'bigint')"
    )
    connection.execute("""CREATE JOB j OPTIONS ('runtime' = 'spark',
        'snapshotIntervalMillis' = '50') AS INSERT INTO m
        SELECT k || CAST(CAST(EXTRACT(SECOND FROM window_end) AS BIGINT) AS VARCHAR), SUM(v)
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND))
            GROUP BY k, window_start, window_end""")
    job = connection.job("j")

    def rows() -> list[Any]:
        return connection.execute("SELECT __key, this FROM m ORDER BY 1").fetchall()

    until(lambda: len(rows()) == 4, job)
    job.suspend(60)
    assert job.error is None
    feed.add((105, "z", 1), (200, "y", 1))
    job.resume()
    # INSERT into a map fails for a key that is there: a batch that came twice would.
    until(lambda: len(rows()) == 5, job)
    assert rows() == [("a10", 1), ("a20", 3), ("a40", 5), ("b10", 2), ("z50", 10)]
    assert job.error is None
    job.cancel(60)
    (checkpoint,) = (tmp_path / "checkpoints").iterdir()
    assert {"commits", "offsets"} <= {item.name for item in checkpoint.iterdir()}
    with connection.execute("SELECT v FROM events") as cursor:
        assert sorted(cursor.fetchone()[0] for _ in range(7)) == [1, 1, 1, 2, 3, 5, 9]


REFUSING = """
import sys
sys.modules['grpc'] = None
import runnel
with runnel.connect(spark="sc://localhost:1/;token=t0p") as connection:
    print("pyspark" in sys.modules)
    try:
        connection.execute("CREATE MAPPING t TYPE Spark OPTIONS ('table' = 't')")
    except runnel.Error as error:
        print(type(error).__name__, error)
    print(connection.execute("SELECT 1").fetchall())
"""


def test_without_its_packages() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REFUSING], capture_output=True, text=True, timeout=110, check=False
    )
    assert done.stdout.startswith(
        "False\nInterfaceError a Spark Connect session needs packages that are not installed"
    )
    assert "HINT: install them with: pip install 'runnel[spark_connect]'" in done.stdout
    assert done.stdout.endswith("[(1,)]\n")
    assert "t0p" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sc://localhost:1/;token=t0p", 'no Spark Connect server answers at "sc://localhost:1"'),
        (
            "sc://localhost:1/path/;token=t0p",
            '"sc://localhost:1/path" is not the address of a Spark Connect server',
        ),
        (
            "sc://localhost:1/;token",
            '"sc://localhost:1" is not the address of a Spark Connect server',
        ),
        ("{url}/;token=t0p", 'the Spark Connect server at "{url}" refuses a session'),
    ],
)
def test_addresses_that_lead_nowhere(server: Server, url: str, message: str) -> None:
    with runnel.connect(spark=url.format(url=server.url)) as connection:
        with pytest.raises(runnel.Error) as caught:
            connection.execute("CREATE MAPPING t TYPE Spark OPTIONS ('table' = 't')")
        assert caught.value.message.startswith(message.format(url=server.url))
        assert "t0p" not in str(caught.value) + str(caught.value.__cause__)
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


@takes_long
def test_a_server_that_ends(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path)
    try:
        pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "t.parquet")
        with runnel.connect(spark=server.full_url) as connection:
            connection.execute(
                f"CREATE MAPPING t TYPE Spark OPTIONS ('path' = '{tmp_path}/t.parquet')"
            )
            assert connection.execute("SELECT SUM(id) FROM t").fetchall() == [(3,)]
            server.kill()
            messages = []
            for _ in range(2):
                with pytest.raises(runnel.OperationalError) as caught:
                    connection.execute("SELECT SUM(id) FROM t").fetchall()
                messages.append(caught.value.message)
                assert TOKEN not in str(caught.value)
            assert messages[-1] in (
                f'no Spark Connect server answers at "{server.url}"',
                (
                    "the Spark session is gone: its Spark Connect server doesn't answer, "
                    "or has dropped it"
                ),
            )
            assert connection.execute("SELECT 1").fetchall() == [(1,)]
    finally:
        server.kill()
