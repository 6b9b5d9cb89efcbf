"""Runnel's tables inside Spark: reading and writing through the data source "runnel"."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.errors import InterfaceError, NotSupportedError, ProgrammingError
from tests.effort import takes_long
from tests.spark_process import missing

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.fixture(scope="module")
def con() -> Iterator[runnel.Connection]:
    with runnel.connect() as made:
        made.execute(
            "CREATE MAPPING m (__key BIGINT, name VARCHAR, x DOUBLE, at TIMESTAMP, "
            "moment TIMESTAMP WITH TIME ZONE, "
            "price DECIMAL(9, 2), day DATE, list BIGINT[]) TYPE IMap OPTIONS "
            "('keyFormat'='bigint', 'valueFormat'='json-flat')"
        )
        made.execute(
            "INSERT INTO m SELECT v, CASE WHEN v <> 3 THEN 'n' || CAST(v AS VARCHAR) END, v / 2.0, "
            "TIMESTAMP '2024-01-01 01:02:03.000004', "
            "TIMESTAMP WITH TIME ZONE '2024-01-01 01:02:03+00:00', 1.5, "
            "DATE '0001-01-01', ARRAY[v, NULL] FROM TABLE(GENERATE_SERIES(-4, 5))"
        )
        yield made


@pytest.fixture(scope="module")
def registered(session: Any, con: runnel.Connection) -> Iterator[Any]:
    """The session, with the data source of that connection."""
    from runnel import spark

    with spark.register(session, con) as registration:
        assert (registration.url or "").startswith("runnel://127.0.0.1:")
        # Spark looks data sources up in the session that was used last to make a DataFrame.
        session.createDataFrame([(1,)], "a int")
        yield session


def read(session: Any, **options: Any) -> Any:
    reader = session.read.format("runnel")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def test_a_query_as_a_data_frame(registered: Any) -> None:
    frame = read(registered, query="SELECT * FROM m WHERE __key >= 2")
    table = frame.toArrow().sort_by("__key")
    assert table.column("__key").to_pylist() == [2, 3, 4, 5]
    assert table.slice(1, 1).to_pylist() == [
        {
            "__key": 3,
            "name": None,
            "x": 1.5,
            "at": datetime(2024, 1, 1, 1, 2, 3, 4),
            "moment": datetime(2024, 1, 1, 1, 2, 3, tzinfo=UTC),
            "price": Decimal("1.50"),
            "day": date(1, 1, 1),
            "list": [3, None],
        }
    ]


def test_partitions_have_each_row_once_and_queries_differ(registered: Any) -> None:
    frame = read(registered, table="m", partitionColumn="__key", numPartitions=3)
    found = frame.selectExpr("spark_partition_id() AS p", "__key").toArrow()
    assert sorted(found.column("__key").to_pylist()) == list(range(-4, 6))
    for part, key in zip(
        found.column("p").to_pylist(), found.column("__key").to_pylist(), strict=True
    ):
        assert part == key % 3
    assert frame.filter("__key > 3").count() == 2
    assert frame.count() == 10, "the filter was the other query's"


@takes_long
def test_the_state_of_a_job(registered: Any, con: runnel.Connection) -> None:
    writer = con.register_stream(
        "clicks", pa.schema([("k", pa.int64()), ("ts", pa.int64())]), time_column="ts"
    )
    con.execute(
        "CREATE MAPPING counts (__key BIGINT, this BIGINT) TYPE IMap "
        "OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
    )
    con.execute(
        "CREATE JOB counting OPTIONS ('snapshotIntervalMillis' = '20') AS SINK INTO counts "
        "SELECT window_end, COUNT(*) "
        "FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), 10)) GROUP BY window_end"
    )
    writer.write([(1, 1), (1, 12)])
    con.execute("CREATE SNAPSHOT first FOR JOB counting")
    rows = read(
        registered, query="SELECT * FROM TABLE(JOB_STATE('counting', 'write counts'))"
    ).toArrow()
    # Columns of watermarks follow, if one has come to the sink by then.
    assert rows.schema.names[:4] == ["epoch", "written", "token", "text"]
    assert rows.num_rows >= 1
    con.execute("DROP JOB counting")


@takes_long
def test_writing_is_one_statement(registered: Any, con: runnel.Connection) -> None:
    con.execute(
        "CREATE MAPPING o (__key BIGINT, this VARCHAR) TYPE IMap "
        "OPTIONS ('keyFormat'='bigint', 'valueFormat'='varchar')"
    )
    frame = registered.range(0, 100, 1, 4).selectExpr("id AS __key", "'v' || id AS this")
    frame.write.format("runnel").option("table", "o").mode("append").save()
    assert con.execute("SELECT count(*), min(this), max(this) FROM o").fetchone() == (
        100,
        "v0",
        "v99",
    )
    with pytest.raises(Exception, match=r"exists already|duplicate key|twice"):
        registered.range(99, 102).selectExpr("id AS __key", "'w' AS this").write.format(
            "runnel"
        ).option("table", "o").mode("append").save()
    assert con.execute("SELECT count(*) FROM o WHERE this = 'w'").fetchone() == (0,), "all or none"
    registered.range(99, 102).selectExpr("id AS __key", "'w' AS this").write.format(
        "runnel"
    ).options(table="o", statement="sink").mode("append").save()
    assert con.execute("SELECT count(*) FROM o WHERE this = 'w'").fetchone() == (3,)
    assert [row[0] for row in con.execute("SHOW MAPPINGS") if "spark" in row[0]] == [], (
        "nothing waits on the server"
    )


def run(start: Callable[[], Any]) -> None:
    """Starts a query that reads what there is, and waits for its end. Spark gives its Python
    processes ten seconds to come up, which a busy computer may not keep; the query then goes on
    where it was."""
    for _ in range(5):
        query = start()
        try:
            assert query.awaitTermination(120)
            return
        except Exception as error:
            if "failed to connect back" not in str(error):
                raise
        finally:
            query.stop()
    pytest.skip("Spark's Python processes take longer than ten seconds to start")


def test_a_stream_by_an_offset(registered: Any, con: runnel.Connection, tmp_path: Path) -> None:
    options = "TYPE IMap OPTIONS ('keyFormat'='bigint', 'valueFormat'='varchar')"
    con.execute(f"CREATE MAPPING events (__key BIGINT, this VARCHAR) {options}")
    con.execute(
        "CREATE MAPPING copies (__key BIGINT, this VARCHAR) TYPE File OPTIONS "
        f"('format'='parquet', 'path'='{tmp_path}/copies', 'ignoreFileNotFound'='true')"
    )

    def start() -> Any:
        stream = registered.readStream.format("runnel").options(
            query="SELECT * FROM events WHERE this <> ?",
            parameters='["z"]',
            offsetColumn="__key",
            numPartitions=2,
            maxOffsetsPerTrigger=6,
        )
        writer = (
            stream.load()
            .writeStream.format("runnel")
            .option("table", "copies")
            .trigger(availableNow=True)
        )
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    con.execute("INSERT INTO events SELECT v, 'a' FROM TABLE(GENERATE_SERIES(1, 10))")
    run(start)
    assert con.execute("SELECT count(*), max(__key) FROM copies").fetchone() == (10, 10)
    # Spark ends before it has kept that the second micro-batch is written: it comes again.
    (tmp_path / "checkpoint" / "commits" / "1").unlink()
    (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)
    con.execute("INSERT INTO events SELECT v, 'b' FROM TABLE(GENERATE_SERIES(11, 13))")
    run(start)
    rows = con.execute("SELECT __key, this FROM copies ORDER BY 1").fetchall()
    assert rows == [(i, "a" if i < 11 else "b") for i in range(1, 14)]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"query": "SELECT * FROM nothing"}, "nothing"),
        ({"query": "SELECT 1", "table": "m"}, "a query or a table, not both"),
        ({}, "reads a query or a table"),
        ({"directory": "kept", "table": "m"}, "its owner is one process"),
        ({"tabel": "m"}, 'unknown option "tabel"'),
    ],
)
def test_wrong_options_are_told(registered: Any, options: dict[str, str], reason: str) -> None:
    with pytest.raises(Exception, match=reason):
        read(registered, **options)


def test_registering_takes_one_server(session: Any, con: runnel.Connection) -> None:
    from runnel import spark

    with pytest.raises(InterfaceError, match="needs a SparkSession"):
        spark.register(object())
    with pytest.raises(InterfaceError, match="a connection, or the url"):
        spark.register(session, con, url="runnel://127.0.0.1:1")


def request(**options: str) -> Any:
    """The request of a reader or writer to a server that does not exist."""
    from runnel.spark.request import request_of

    return request_of(options, {"url": "runnel://127.0.0.1:1", "token": "t"})


def two_columns(name: str, other: str) -> Any:
    """Spark's schema of a BIGINT and a VARCHAR."""
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    return StructType([StructField(name, LongType()), StructField(other, StringType())])


def test_partitions_of_requests_without_spark() -> None:
    """The queries and offsets of partitions by the options, without a process for each."""
    from runnel.spark.reader import Reader, StreamReader

    schema = two_columns("id", "a b")
    [part] = Reader(request(query="SELECT 1"), schema).partitions()
    assert part.value == ('SELECT "id", "a b" FROM (SELECT 1) AS q', ())
    parts = Reader(
        request(table='x"y', partitionColumn="ID", numPartitions="2"), schema
    ).partitions()
    assert [item.value[0] for item in parts] == [
        'SELECT "id", "a b" FROM "x""y" AS q WHERE ("id" % 2 + 2) % 2 = 0 OR "id" IS NULL',
        'SELECT "id", "a b" FROM "x""y" AS q WHERE ("id" % 2 + 2) % 2 = 1',
    ]
    stream = StreamReader(request(table="t", offsetColumn="id", numPartitions="3"), schema)
    assert stream.initialOffset() == {"offset": None}
    assert stream.partitions({"offset": 4}, {"offset": 4}) == []
    assert [item.value[1] for item in stream.partitions({"offset": 0}, {"offset": 10})] == [
        (0, 3),
        (3, 6),
        (6, 10),
    ]
    assert [item.value[1] for item in stream.partitions({"offset": 9}, {"offset": 10})] == [(9, 10)]
    assert [item.value[1] for item in stream.partitions({"offset": None}, {"offset": 10})] == [
        (10,)
    ]


def test_refused_requests_without_spark() -> None:
    from runnel.spark.reader import Reader, StreamReader
    from runnel.spark.request import request_of
    from runnel.spark.writer import Writer

    schema = two_columns("id", "a b")
    for make, reason in [
        (lambda: Reader(request(table="t", numPartitions="2"), schema), "by a column of integers"),
        (
            lambda: Reader(request(table="t", partitionColumn="a b"), schema),
            "is no column of integers",
        ),
        (lambda: Reader(request(table="t", partitionColumn="ix"), schema), 'column "ix" of option'),
        (lambda: Reader(request(table="t", numPartitions="many"), schema), "is a whole number"),
        (lambda: StreamReader(request(table="t"), schema), "that only grows"),
        (
            lambda: Writer(request(query="SELECT 1"), schema, "1", overwrite=False),
            "writes to a table",
        ),
        (
            lambda: Writer(request(table="t", statement="drop"), schema, "1", overwrite=False),
            "INSERT or SINK",
        ),
        (lambda: request_of({"table": "t"}, {}), "the address of a server"),
        (
            lambda: request(query="SELECT ?", parameters="3").arguments,
            "is a list of values in JSON",
        ),
        (lambda: request(table="t", parameters="[3]").arguments, "is for a query"),
    ]:
        with pytest.raises(ProgrammingError, match=reason):
            make()
    with pytest.raises(NotSupportedError, match="can't overwrite"):
        Writer(request(table="t"), schema, "1", overwrite=True)


@pytest.fixture
def served() -> Iterator[tuple[runnel.Connection, dict[str, str]]]:
    """A connection, and the options of a server in front of it."""
    from runnel.serving.server import Server

    with runnel.connect() as made:
        server = Server(made, "a token of this test")
        options = "TYPE IMap OPTIONS ('keyFormat'='bigint', 'valueFormat'='varchar')"
        made.execute(f"CREATE MAPPING t (__key BIGINT, this VARCHAR) {options}")
        yield made, {"url": server.url, "token": "a token of this test"}
        server.stop()


def test_tasks_and_commits_without_spark(served: Any) -> None:
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    from runnel.spark.request import request_of
    from runnel.spark.writer import MicroBatchWriter, Writer

    con, server = served
    schema = StructType([StructField("__key", LongType()), StructField("this", StringType())])
    request = request_of({"table": "t"}, server)

    def batch(*keys: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [pa.array(keys), pa.array([f"v{key}" for key in keys])], names=schema.names
        )

    writer = Writer(request, schema, "1", overwrite=False)
    assert writer.write(iter([])).name is None
    writer.commit([writer.write(iter([]))])
    message = writer.write(iter([batch(1), batch(2, 3)]))
    assert con.execute("SELECT count(*) FROM t").fetchone() == (0,), "rows wait for the commit"
    repeated = writer.write(iter([batch(1), batch(2, 3)]))
    assert repeated != message, "a late attempt takes the place of no other one"
    writer.commit([repeated])
    assert con.execute("SELECT * FROM t ORDER BY 1").fetchall() == [(1, "v1"), (2, "v2"), (3, "v3")]
    with pytest.raises(runnel.ProgrammingError, match="not found"):
        con.execute(f"SELECT * FROM {message.name}")
    writer.abort([writer.write(iter([batch(9)])), None])
    with pytest.raises(runnel.IntegrityError):
        writer.commit([writer.write(iter([batch(3, 4)]))])
    with pytest.raises(runnel.ProgrammingError, match="not found"):
        con.execute(f"SELECT * FROM {message.name}")
    assert con.execute("SELECT count(*) FROM t").fetchone() == (3,)
    stream = MicroBatchWriter(request, schema, "2", overwrite=False)
    for _ in range(2):
        stream.commit([stream.write(iter([batch(3, 4)]))], 7)
    assert con.execute("SELECT count(*) FROM t").fetchone() == (4,), (
        "a micro-batch that comes again is written over itself"
    )


def test_a_micro_batch_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the id of its query and its number: where the table has no key, and by another process
    after a crash."""
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    from runnel.serving.server import Server
    from runnel.spark.request import request_of
    from runnel.spark.writer import MicroBatchWriter, Written

    schema = StructType([StructField("name", StringType()), StructField("id", LongType())])
    create = (
        "CREATE MAPPING IF NOT EXISTS o (id INTEGER, name VARCHAR, more DOUBLE) TYPE File "
        "OPTIONS ('format' = 'csv', 'path' = "
    )

    def commits(con: runnel.Connection, *batches: tuple[str, int, list[int]]) -> list[Any]:
        con.execute(f"{create}'{tmp_path}/o', 'ignoreFileNotFound' = 'true')")
        server = Server(con, "a token of this test")
        request = request_of({"table": "O", "url": server.url, "token": "a token of this test"}, {})
        try:
            for query, number, ids in batches:
                writer = MicroBatchWriter(request, schema, "1", overwrite=False)
                rows = pa.RecordBatch.from_arrays(
                    [pa.array([f"n{i}" for i in ids]), pa.array(ids)], names=schema.names
                )
                message = writer.write(iter([rows]))
                writer.commit([Written(message.name, query), None, Written(None)], number)
        finally:
            server.stop()
        return con.execute("SELECT id, name, more FROM o ORDER BY id").fetchall()

    with runnel.connect(str(tmp_path / "db")) as con:
        rows = commits(con, ("q", 0, [1, 2]), ("q", 0, [1, 2]), ("q", 1, [3]))
        assert rows == [(1, "n1", None), (2, "n2", None), (3, "n3", None)]
        with pytest.raises(runnel.DataError, match=r"3000000000"):
            commits(con, ("q", 2, [3_000_000_000]))
    with runnel.connect(str(tmp_path / "db")) as con, monkeypatch.context() as patch:
        # The process ends between keeping the number and the commit.
        patch.setattr("runnel.connectors.files.sink.FileSink.commit", lambda sink, token: 1 / 0)
        with pytest.raises(runnel.Error):
            commits(con, ("q", 2, [4]))
    with runnel.connect(str(tmp_path / "db")) as con:
        rows = commits(con, ("q", 2, [4]), ("q", 1, [3]), ("another", 0, [5]))
        assert [row[0] for row in rows] == [1, 2, 3, 4, 5]
    with runnel.connect() as con:
        rows = commits(con, ("q", 0, [6]), ("q", 0, [6]))
        assert [row[0] for row in rows] == [1, 2, 3, 4, 5, 6]


def test_a_batch_that_violates_a_key_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends before the commit that would have failed: the writer is told when it comes
    again, and may go on."""
    from runnel.statements.numbered_writes import NumberedWrite, write_once

    create = "CREATE MAPPING IF NOT EXISTS o (__key BIGINT, this VARCHAR) TYPE IMap"
    options = "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'varchar')"

    def write(
        con: runnel.Connection, number: int, keys: list[int], text: str, statement: str = "INSERT"
    ) -> int:
        con.execute(f"{create} {options}")
        con.register(
            "rows", pa.table({"k": keys, "v": [text] * len(keys)}).rename_columns(["__key", "this"])
        )
        columns = ("__key", "this")
        given = NumberedWrite(
            writer="w",
            number=number,
            statement=statement,
            table="o",
            columns=columns,
            rows=("rows",),
        )
        return write_once(con._executor, given, lambda _: None)

    with runnel.connect(str(tmp_path / "db")) as con:
        assert write(con, 0, [1, 2], "first") == 2
        monkeypatch.setattr("runnel.connectors.imap.sink.MapSink.commit", lambda sink, token: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            write(con, 1, [2, 3], "second")
        monkeypatch.undo()
    with runnel.connect(str(tmp_path / "db")) as con:
        for _ in range(2):
            with pytest.raises(runnel.IntegrityError, match="2"):
                write(con, 1, [2, 3], "second")
        assert write(con, 1, [2, 3], "second", "SINK") == 2
        assert write(con, 1, [2, 3], "again") == 0
        assert write(con, 2, [4], "third") == 1
        assert con.execute("SELECT this FROM o ORDER BY __key").fetchall() == [
            ("first",),
            *[("second",)] * 2,
            ("third",),
        ]


def keys(reader: Any, parts: Any) -> list[list[int]]:
    """The keys of each partition, in order."""
    found = [
        [key for batch in reader.read(part) for key in batch.column(0).to_pylist()]
        for part in parts
    ]
    return [sorted(part) for part in found]


def test_reading_a_table_without_spark(served: Any) -> None:
    from runnel.spark.reader import Reader
    from runnel.spark.request import request_of
    from runnel.spark.source import RunnelDataSource

    con, server = served
    con.execute("INSERT INTO t SELECT v, 'v' FROM TABLE(GENERATE_SERIES(-3, 6))")
    schema = two_columns("__key", "this")
    assert RunnelDataSource({**server, "table": "t"}).schema() == schema
    with pytest.raises(NotSupportedError, match='column "c" is of type TIME'):
        RunnelDataSource({**server, "query": "SELECT TIME '01:00:00' AS c"}).schema()
    reader = Reader(
        request_of({"table": "t", "partitionColumn": "__key", "numPartitions": "3"}, server), schema
    )
    assert keys(reader, reader.partitions()) == [[-3, 0, 3, 6], [-2, 1, 4], [-1, 2, 5]]


def test_reading_a_stream_without_spark(served: Any) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    from runnel.spark.reader import StreamReader
    from runnel.spark.request import request_of

    con, server = served
    con.execute("INSERT INTO t SELECT v, 'v' FROM TABLE(GENERATE_SERIES(-3, 6))")
    schema = two_columns("__key", "this")
    options = {
        "query": "SELECT * FROM t WHERE __key <> 0",
        "offsetColumn": "__key",
        "maxOffsetsPerTrigger": "4",
    }
    stream = StreamReader(request_of(options, server), schema)
    start = stream.initialOffset()
    first = stream.latestOffset(start, ReadMaxRows(4))
    assert (first, keys(stream, stream.partitions(start, first))) == ({"offset": 0}, [[-3, -2, -1]])
    second = stream.latestOffset(first, ReadAllAvailable())
    assert (second, keys(stream, stream.partitions(first, second))) == (
        {"offset": 6},
        [[1, 2, 3, 4, 5, 6]],
    )
    assert stream.latestOffset(second, ReadMaxRows(4)) == second
    con.execute("INSERT INTO t VALUES (7, 'x')")
    assert keys(stream, stream.partitions(first, second)) == [[1, 2, 3, 4, 5, 6]], (
        "repeated, it has the same rows"
    )
    assert stream.latestOffset(second, ReadMaxRows(4)) == {"offset": 7}
    stream.prepareForTriggerAvailableNow()
    con.execute("INSERT INTO t VALUES (8, 'x')")
    assert (
        stream.latestOffset(second, ReadMaxRows(4))
        == stream.latestOffset({"offset": 7}, ReadMaxRows(4))
        == {"offset": 7}
    )
    options = {
        "query": "SELECT * FROM t WHERE __key > ? AND this = ?",
        "parameters": '[5, "x"]',
        "offsetColumn": "__key",
    }
    filtered = StreamReader(request_of(options, server), schema)
    assert filtered.latestOffset({"offset": 7}, ReadAllAvailable()) == {"offset": 8}
    assert keys(filtered, filtered.partitions({"offset": None}, {"offset": 7})) == [[7]]


def test_rows_without_an_offset_are_an_error_without_spark(served: Any) -> None:
    """They would never be read. The error comes at the start, or when a later one is found."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from runnel.spark.reader import StreamReader
    from runnel.spark.request import request_of

    con, server = served
    con.execute("INSERT INTO t SELECT v, 'v' FROM TABLE(GENERATE_SERIES(-3, 8))")
    schema = two_columns("__key", "this")
    nulls = {"query": "SELECT NULLIF(__key, 9) AS __key, this FROM t", "offsetColumn": "__key"}
    later, at_once = (
        StreamReader(request_of(nulls | more, server), schema)
        for more in ({}, {"startingOffset": "8"})
    )
    assert later.latestOffset({"offset": 7}, ReadAllAvailable()) == {"offset": 8}
    con.execute("INSERT INTO t VALUES (9, 'x'), (10, 'x')")
    for stream, offset in ((later, 8), (at_once, 8), (at_once, 10)):
        with pytest.raises(
            runnel.DataError, match='there are rows whose "__key", the option "offsetColumn"'
        ) as caught:
            stream.latestOffset({"offset": offset}, ReadAllAvailable())
        assert "WHERE __key IS NOT NULL" in (caught.value.hint or "")


def test_what_a_reader_refuses_without_spark(served: Any) -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    from runnel.spark.reader import Reader
    from runnel.spark.request import request_of

    con, server = served
    con.execute("INSERT INTO t VALUES (7, 'x')")
    other = Reader(
        request_of({"table": "t"}, server), StructType([StructField("this", LongType())])
    )
    with pytest.raises(
        ProgrammingError, match='column "this" can\'t be read as int64: it is string'
    ):
        keys(other, other.partitions())
    con.register_stream("endless", pa.schema([("__key", pa.int64()), ("this", pa.string())]))
    endless = Reader(request_of({"table": "endless"}, server), two_columns("__key", "this"))
    with pytest.raises(ProgrammingError, match="can't read a query without end"):
        keys(endless, endless.partitions())
