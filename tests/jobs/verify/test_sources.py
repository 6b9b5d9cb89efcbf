"""VERIFY JOB over each source that can be read again, up to the place where the job was, and over
those that can't."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import runnel
from runnel import Connection
from tests.jobs.feeds import PATIENCE
from tests.waiting import eventually

ROWS = "(k BIGINT, v VARCHAR) TYPE"
MAP = (
    "(__key BIGINT, this BIGINT) TYPE IMap OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint'{})"
)


@pytest.fixture
def connection() -> Iterator[Connection]:
    with runnel.connect() as made:
        yield made


def start(connection: Connection, query: str) -> runnel.NamedJob:
    connection.execute(
        f"CREATE JOB j OPTIONS ('snapshotIntervalMillis'='3600000') AS INSERT INTO out {query}"
    )
    return connection.job("j")


def read(job: runnel.NamedJob, count: int) -> None:
    assert eventually(lambda: job.rows_in == count), job.rows_in


def verified(connection: Connection) -> int:
    (row,) = connection.execute("VERIFY JOB j", timeout=PATIENCE).fetchall()
    assert row[0] == "equal", row
    return int(row[1])


def lines(first: int, end: int) -> str:
    return "".join(f"{i},value {i % 5}\n" for i in range(first, end))


def test_text_files_that_grow(connection: Connection, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k,v\n" + lines(0, 100))
    connection.execute(
        f"CREATE MAPPING t {ROWS} File OPTIONS ('path'='{tmp_path}', 'format'='csv', "
        "'follow'='true')"
    )
    connection.execute(f"CREATE MAPPING out {ROWS} DuckDB")
    job = start(connection, "SELECT k, v FROM t")
    read(job, 100)
    assert verified(connection) == 100
    with (tmp_path / "a.csv").open("a") as file:
        file.write(lines(100, 150) + "151,hal")
    (tmp_path / "b.csv").write_text("k,v\n" + lines(150, 151))
    read(job, 151)
    assert verified(connection) == 151
    connection.execute("ALTER JOB j SUSPEND")
    with (tmp_path / "a.csv").open("a") as file:
        file.write("f\n" + lines(200, 210))
    assert verified(connection) == 151, "what came since isn't read"
    connection.execute("ALTER JOB j RESUME")
    read(job, 11)
    assert verified(connection) == 162
    (tmp_path / "b.csv").unlink()
    assert "is gone" in refused(connection, "POSITION_EXPIRED").detail


def test_more_rows_than_a_batch(connection: Connection, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k,v\n" + lines(0, 200_000))
    connection.execute(
        f"CREATE MAPPING t {ROWS} File OPTIONS ('path'='{tmp_path}', 'format'='csv', "
        "'follow'='true')"
    )
    connection.execute(f"CREATE MAPPING out {ROWS} DuckDB")
    job = start(connection, "SELECT k, v FROM t")
    seen = [verified(connection)]  # wherever it is just now
    read(job, 200_000)
    assert 0 <= seen[0] <= verified(connection) == 200_000


@pytest.mark.parametrize("form", ["parquet", "avro", "json-flat"])
def test_files_of_other_formats(connection: Connection, tmp_path: Path, form: str) -> None:
    options = f"'path'='{tmp_path}/in', 'format'='{form}'"
    (tmp_path / "in").mkdir()
    connection.execute(f"CREATE MAPPING written {ROWS} File OPTIONS ({options})")
    connection.execute(
        "INSERT INTO written SELECT n, 'x' FROM TABLE(GENERATE_SERIES(1, 50)) AS s(n)"
    )
    connection.execute(
        f"CREATE MAPPING t {ROWS} File OPTIONS ({options}, 'follow'='true', 'pollMillis'='10')"
    )
    connection.execute(
        f"CREATE MAPPING out {ROWS} File OPTIONS ('path'='{tmp_path}/out', 'format'='{form}')"
    )
    job = start(connection, "SELECT k, v FROM t")
    read(job, 50)
    assert verified(connection) == 50
    connection.execute(
        "INSERT INTO written SELECT n, 'y' FROM TABLE(GENERATE_SERIES(51, 90)) AS s(n)"
    )
    read(job, 90)
    assert verified(connection) == 90


def test_generated_numbers(connection: Connection) -> None:
    connection.execute("CREATE MAPPING out (v BIGINT) TYPE DuckDB")
    job = start(connection, "SELECT v * 2 FROM TABLE(GENERATE_STREAM(1000)) WHERE v % 3 = 0")
    assert eventually(lambda: job.rows_in > 10)
    assert verified(connection) > 0
    connection.execute("ALTER JOB j SUSPEND")
    assert verified(connection) > 0


@pytest.mark.parametrize(
    "options", ["'eventRate'='1000'", "'partitions'='3', 'jitterMillis'='20', 'eventRate'='1000'"]
)
def test_nexmark(connection: Connection, options: str) -> None:
    connection.execute(f"CREATE MAPPING bid TYPE Nexmark OPTIONS ('table'='bid', {options})")
    connection.execute(
        "CREATE MAPPING out (e TIMESTAMP, channel VARCHAR, n BIGINT, mean DOUBLE) TYPE DuckDB"
    )
    job = start(
        connection,
        "SELECT window_end, channel, COUNT(*), AVG(price) "
        "FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(date_time), "
        "INTERVAL '1' SECOND)) GROUP BY window_end, channel",
    )
    assert eventually(lambda: job.rows_out > 0)
    connection.execute("ALTER JOB j SUSPEND")
    assert verified(connection) == connection.execute("SELECT COUNT(*) FROM out").fetchone()[0] > 0  # type: ignore[index]


def test_changes_of_a_map(connection: Connection) -> None:
    connection.execute(
        f"CREATE MAPPING m {MAP.format(', ' + repr('journalCapacity') + '=' + repr('100'))}"
    )
    connection.execute("CREATE MAPPING out (k BIGINT, v BIGINT, o VARCHAR) TYPE DuckDB")
    connection.execute("INSERT INTO m VALUES (1, 1)")  # before the job
    job = start(connection, "SELECT __key, this, operation FROM TABLE(CHANGES(TABLE m))")
    for number in range(20):
        connection.execute("SINK INTO m VALUES (?, ?)", (number % 7, number))
    read(job, 20)
    assert verified(connection) == 20
    for number in range(200):
        connection.execute("SINK INTO m VALUES (?, ?)", (number % 7, number))
    read(job, 220)
    assert "no longer in its journal" in refused(connection, "POSITION_EXPIRED").detail


def test_a_table_that_a_stream_is_joined_with(connection: Connection) -> None:
    connection.execute(f"CREATE MAPPING m {MAP.format('')}")
    connection.execute("INSERT INTO m SELECT n, n * n FROM TABLE(GENERATE_SERIES(0, 9)) AS s(n)")
    connection.execute(
        "CREATE MAPPING bid TYPE Nexmark OPTIONS ('table'='bid', 'eventRate'='1000')"
    )
    connection.execute("CREATE MAPPING out (price BIGINT, square BIGINT) TYPE DuckDB")
    job = start(connection, "SELECT price, this FROM bid JOIN m ON bid.price % 10 = m.__key")
    assert eventually(lambda: job.rows_out > 100)
    (row,) = connection.execute("VERIFY JOB j").fetchall()
    assert row[0] == "equal" and row[1] > 100 and row[3].endswith("read as it is now: m")
    connection.execute("UPDATE m SET this = 7 WHERE __key = 3")
    connection.execute("ALTER JOB j SUSPEND")
    assert connection.execute("VERIFY JOB j").fetchall()[0][0] == "different"


def test_bounded_jobs_when_they_have_ended(connection: Connection) -> None:
    connection.execute("CREATE MAPPING out (v BIGINT, r BIGINT) TYPE DuckDB")
    job = start(
        connection,
        "SELECT v % 100, SUM(v) FROM TABLE(GENERATE_SERIES(1, 10000)) AS s(v) GROUP BY v % 100",
    )
    job.join(PATIENCE)
    assert verified(connection) == 100


def refused(connection: Connection, code: str) -> Any:
    with pytest.raises(runnel.OperationalError, match="its input no longer exists") as caught:
        connection.execute("VERIFY JOB j", timeout=PATIENCE)
    assert caught.value.code.name == code and caught.value.hint and caught.value.detail
    return caught.value


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[str, Callable[..., None]]]:
    ck = pytest.importorskip("confluent_kafka")
    producer = ck.Producer({"test.mock.num.brokers": 1, "log_level": 0})
    servers = ",".join(
        f"{item.host}:{item.port}" for item in producer.list_topics(timeout=10).brokers.values()
    )

    def send(topic: str, *values: int) -> None:
        for value in values:
            producer.produce(
                topic, value=f'{{"k": {value}, "v": "x"}}'.encode(), partition=value % 2
            )
        assert producer.flush(10) == 0

    yield servers, send
    producer.flush(1)


@pytest.mark.parametrize("begins", ["earliest", "latest"])
def test_topics(
    connection: Connection, cluster: tuple[str, Callable[..., None]], begins: str
) -> None:
    servers, send = cluster
    topic, target = f"in_{begins}", f"out_{begins}"
    send(topic, *range(10))
    options = (
        f"'bootstrap.servers'='{servers}', 'valueFormat'='json-flat', "
        f"'auto.offset.reset'='{begins}'"
    )
    connection.execute(f"CREATE MAPPING t EXTERNAL NAME {topic} {ROWS} Kafka OPTIONS ({options})")
    connection.execute(
        f"CREATE MAPPING out EXTERNAL NAME {target} {ROWS} Kafka OPTIONS ({options})"
    )
    query = "INSERT INTO out SELECT k, v FROM t WHERE k <> 12"
    given = "'snapshotIntervalMillis'='3600000', 'processingGuarantee'='none'"
    connection.execute(f"CREATE JOB j OPTIONS ({given}) AS {query}")
    job, known = connection.job("j"), 10 if begins == "earliest" else 0
    send(topic, *range(10, 20))
    read(job, known + 9)
    connection.execute("ALTER JOB j SUSPEND")
    send(topic, 20, 21)
    assert verified(connection) == known + 9
    send(target, 1)
    first, *rest = connection.execute("VERIFY JOB j").fetchall()
    assert first[:2] == ("different", 1) and [row[:3] for row in rest] == [
        ("only in the sink", 1, "k=1, v='x'")
    ]
