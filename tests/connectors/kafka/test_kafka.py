"""Kafka: formats both ways, offsets, malformed messages, ends and gaps; on librdkafka's own mock
cluster.

Tests marked needs_broker run against a real one: RUNNEL_KAFKA=host:port.
"""

from __future__ import annotations

import io
import json
import os
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

import runnel
from runnel.connector import (
    ColumnDefinition,
    MappingDefinition,
    Pause,
    ScanRequest,
    SourcePartition,
)
from runnel.connectors.kafka import client
from runnel.errors import (
    DataError,
    ErrorCode,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)
from runnel.processor import ExpiredPosition
from runnel.sqltypes import BIGINT, DOUBLE, TIMESTAMP, VARCHAR, SqlType, array
from tests.connectors.conformance import job_context, visible

ck = pytest.importorskip("confluent_kafka")
fastavro = pytest.importorskip("fastavro")

from runnel.connectors.kafka.connector import KafkaConnector, KafkaTable  # noqa: E402
from runnel.connectors.kafka.source import KafkaPartition  # noqa: E402

BROKER = os.environ.get("RUNNEL_KAFKA")
FIELDS = (("id", BIGINT), ("name", VARCHAR))


class Cluster:
    """A cluster of one broker, and a producer of it."""

    def __init__(self, servers: str | None = None) -> None:
        options: dict[str, Any] = (
            {"test.mock.num.brokers": 1, "log_level": 0}
            if servers is None
            else {"bootstrap.servers": servers}
        )
        self.producer = ck.Producer(options)
        brokers = self.producer.list_topics(timeout=10).brokers.values()
        self.servers = servers or ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def send(
        self, topic: str, *values: Any, key: Any = None, partition: int = 0, **options: Any
    ) -> None:
        for value in values:
            self.producer.produce(topic, value=value, key=key, partition=partition, **options)
        assert self.producer.flush(10) == 0

    def received(self, topic: str, count: int) -> list[tuple[Any, Any]]:
        """The messages of all partitions, sorted."""
        client = ck.Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": uuid4().hex,
                "auto.offset.reset": "earliest",
            }
        )
        numbers = client.list_topics(topic, timeout=10).topics[topic].partitions
        client.assign([ck.TopicPartition(topic, number, 0) for number in numbers])
        found = []
        while len(found) < count and (message := client.poll(10)) is not None:
            assert message.error() is None
            found.append((message.key(), message.value()))
        assert client.poll(0.2) is None
        client.close()
        return sorted(found, key=repr)

    def table(self, topic: str, columns: Any = FIELDS, **options: str) -> KafkaTable:
        given = tuple(
            ColumnDefinition(*(item if len(item) == 3 else (*item, None))) for item in columns
        )
        known = {
            "valueFormat": "json-flat",
            "bootstrap.servers": self.servers,
            "auto.offset.reset": "earliest",
        }
        definition = MappingDefinition("m", given, {**known, **options}, external_name=topic)
        found = KafkaConnector().open(definition)
        assert isinstance(found, KafkaTable)
        return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.producer.flush(1)


def partitions(table: KafkaTable, columns: tuple[int, ...] | None = None) -> list[SourcePartition]:
    return list(
        table.scan(ScanRequest(visible(table) if columns is None else columns)).split(job_context())
    )


def available(part: SourcePartition, count: int) -> list[tuple[Any, ...]]:
    """So many rows; and there are no more."""
    rows: list[tuple[Any, ...]] = []
    pauses = 0
    while len(rows) < count and pauses < 1000:
        item = part.read()
        if isinstance(item, Pause):
            pauses += 1
        else:
            assert isinstance(item, pa.RecordBatch)
            rows += [tuple(row.values()) for row in item.to_pylist()]
    assert len(rows) == count
    return rows


def read(
    table: KafkaTable, count: int, columns: tuple[int, ...] | None = None
) -> list[tuple[Any, ...]]:
    """The rows of partition 0."""
    parts = partitions(table, columns)
    try:
        return available(parts[0], count)
    finally:
        for part in parts:
            part.close()


AVRO = {
    "type": "record",
    "name": "trade",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}],
}


def avro(record: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(AVRO), record)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("options", "columns", "payloads", "rows"),
    [
        ({"valueFormat": "json-flat"}, FIELDS, [(
            b'{"id": 1, "name": "a"}'
        ), b'{"id":2,\n"x": [0]}', None, b"null"],
         [(1, "a"), (2, None), (None, None), (None, None)]),
        ({"valueFormat": "csv"}, FIELDS,
         [b"1,a", b'2,"x, ""y"""', b"3,\n", None, b'5,"two\nlines"'],
         [(1, "a"), (2, 'x, "y"'), (3, None), (None, None), (5, "two\nlines")]),
        ({"valueFormat": "avro", "valueAvroSchema": json.dumps(AVRO)}, (),
         [avro({"id": 1, "name": "a"}), avro({"id": 2, "name": None}), None],
         [(1, "a"), (2, None), (None, None)]),
        ({"valueFormat": "varchar"}, (), ["Grüße".encode(), b"", None],
         [("Grüße",), ("",), (None,)]),
        ({"valueFormat": "varbinary"}, (), [b"\xff\x00", None], [(b"\xff\x00",), (None,)]),
        ({"valueFormat": "bigint"}, (), [struct.pack(">q", -5), None, struct.pack(">q", 2**40)],
         [(-5,), (None,), (2**40,)]),
        ({"valueFormat": "int"}, (), [struct.pack(">i", -5)], [(-5,)]),
        ({"valueFormat": "smallint"}, (), [struct.pack(">h", 300)], [(300,)]),
        ({"valueFormat": "double"}, (), [struct.pack(">d", 0.1)], [(0.1,)]),
        ({"valueFormat": "real"}, (), [struct.pack(">f", 0.5)], [(0.5,)]),
        ({"valueFormat": "json"}, (), [b'{"a": [1, null]}', None],
         [('{"a": [1, null]}',), (None,)]),
        ({"valueFormat": "timestamp"}, (), [b"2024-01-01 10:00:00", None],
         [(datetime(2024, 1, 1, 10),), (None,)]),
    ],
    ids=lambda item: item.get("valueFormat") if isinstance(item, dict) else None,
)  # fmt: skip
def test_formats(
    cluster: Cluster, options: dict[str, str], columns: Any, payloads: list[Any], rows: list[Any]
) -> None:
    topic = uuid4().hex
    cluster.send(topic, *payloads)
    table = cluster.table(topic, columns, **options)
    assert read(table, len(rows)) == rows


def test_keys_and_what_a_message_has_besides(cluster: Cluster) -> None:
    topic = uuid4().hex
    cluster.send(topic, b'{"v": 1}', key=b'{"k": "a"}', timestamp=1_000)
    cluster.send(topic, b'{"v": 2}', timestamp=2_000)
    columns = [("v", BIGINT), ("k", VARCHAR, "__key.k"), ("value", BIGINT, "this.v")]
    table = cluster.table(topic, columns, keyFormat="json-flat")
    assert read(table, 2) == [(1, "a", 1), (2, None, 2)]
    names = [column.name for column in table.columns]
    assert names == ["v", "k", "value", "__partition", "__offset", "__timestamp"]
    assert read(table, 2, (5, 4, 3, 1)) == [
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 0, 0, "a"),
        (datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC), 1, 0, None),
    ]
    assert read(cluster.table(topic, (), keyFormat="varchar", valueFormat="varchar"), 2) == [
        ('{"k": "a"}', '{"v": 1}'),
        (None, '{"v": 2}'),
    ]


def test_rows_without_columns_are_counted(cluster: Cluster) -> None:
    topic = uuid4().hex
    cluster.send(topic, b"1", b"2")
    (part, *_) = parts = partitions(cluster.table(topic, (), valueFormat="varchar"), ())
    rows = 0
    while rows < 2:
        item = part.read()
        rows += item.num_rows if isinstance(item, pa.RecordBatch) else 0
    assert rows == 2 and item.num_columns == 0
    for each in parts:
        each.close()


MALFORMED = [
    ("json-flat", FIELDS,
     [b'{"id": 1}', b"oops", b'{"id": "x"}', b"", b'{"id": "\xff"}', b"[1]", b'{"id": 7}'], [1, 7]),
    ("json-flat", FIELDS, [b'{"id": 1}\n{"id": 2}', b'{"id": 7}'], [7]),
    ("csv", FIELDS, [b"1,a", b"2", b"x,b", b"1,2,3", b"\xff,c", b"7,d"], [1, 7]),
    ("csv", FIELDS, [b"1,a", b"2,b\n3,c", b'7,"d\ne"', b"x,f"], [1, 7]),
    ("avro", FIELDS,
     [avro({"id": 1, "name": "a"}), b"", b"\x02",
      avro({"id": 7, "name": "b"}) + b"x", avro({"id": 7, "name": None})], [1, 7]),
    ("bigint", (), [struct.pack(">q", 1), b"123", struct.pack(">q", 7)], [1, 7]),
    ("varchar", (), [b"a", b"\xff", b"b"], ["a", "b"]),
    ("json", (), [b"1", b"{", b"2"], ["1", "2"]),
    ("date", (), [b"2024-01-01", b"soon"], None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "columns", "payloads", "good"),
    MALFORMED,
    ids=lambda item: item if isinstance(item, str) else None,
)
def test_malformed_messages(
    cluster: Cluster, kind: str, columns: Any, payloads: list[bytes], good: list[Any] | None
) -> None:
    topic = uuid4().hex
    cluster.send(topic, *payloads)
    count = 1 if good is None else len(good)
    options = {"valueFormat": kind} | (
        {"valueAvroSchema": json.dumps(AVRO)} if kind == "avro" else {}
    )
    parts = partitions(cluster.table(topic, columns, onError="divert:bad", **options))
    rows = available(parts[0], count)
    assert good is None or [row[0] for row in rows] == good
    for _ in range(100):  # the last message may come with a later answer of the broker
        if parts[0].malformed == len(payloads) - count:
            break
        found = parts[0].read()
        assert not isinstance(found, pa.RecordBatch) or not found.num_rows
    assert parts[0].malformed == len(payloads) - count
    places = [record.place.partition(":")[0] for record in parts[0].take_malformed()]
    assert len(set(places)) == len(places)
    assert all(place.startswith(f'topic "{topic}", partition 0, offset ') for place in places)
    for part in parts:
        part.close()
    parts = partitions(cluster.table(topic, columns, **options))
    with pytest.raises(DataError) as caught:
        available(parts[0], len(payloads))
    assert f'topic "{topic}", partition 0, offset 1' in (caught.value.detail or "") or kind in (
        "csv",
        "json-flat",
    )
    for part in parts:
        part.close()


def test_where_reading_starts(cluster: Cluster) -> None:
    topic = uuid4().hex
    cluster.send(topic, b"old")
    latest = partitions(
        cluster.table(topic, (), valueFormat="varchar", **{"auto.offset.reset": "latest"})
    )
    unset = partitions(
        cluster.table(topic, (), valueFormat="varchar", **{"auto.offset.reset": "LATEST"})
    )
    cluster.send(topic, b"new")
    assert available(latest[0], 1) == available(unset[0], 1) == [("new",)]
    group = ck.Consumer({"bootstrap.servers": cluster.servers, "group.id": "readers"})
    group.commit(offsets=[ck.TopicPartition(topic, 0, 1)], asynchronous=False)
    group.close()
    committed = partitions(
        cluster.table(topic, (), valueFormat="varchar", **{"group.id": "readers"})
    )
    assert available(committed[0], 1) == [("new",)]
    for part in (*latest, *unset, *committed):
        part.close()


def test_a_partition_that_came_after_the_snapshot_is_read_from_its_start(cluster: Cluster) -> None:
    """Whatever 'auto.offset.reset' says: a query that starts anew hasn't missed it, a job has."""
    topic = uuid4().hex
    cluster.send(topic, b"old")
    parts = partitions(
        cluster.table(topic, (), valueFormat="varchar", **{"auto.offset.reset": "latest"})
    )
    parts[0].begin_anew()
    assert available(parts[0], 1) == [("old",)]
    for part in parts:
        part.close()


def test_reading_goes_on_from_a_position(cluster: Cluster) -> None:
    topic = uuid4().hex
    cluster.send(topic, *[str(i).encode() for i in range(50)])
    table = cluster.table(topic, (), valueFormat="varchar")
    parts = partitions(table)
    assert parts[0].position() == {"topic": topic, "partition": 0, "offset": 0, "time": None}
    rows = available(parts[0], 50)
    token = parts[0].position() or {}
    assert isinstance(token.pop("time"), int)
    assert token == {"topic": topic, "partition": 0, "offset": 50}
    other = partitions(table)
    other[0].seek({"topic": topic, "partition": 0, "offset": 20})
    assert available(other[0], 30) == rows[20:]
    with pytest.raises(OperationalError, match="partition 1 of topic"):
        other[1].seek(parts[0].position() or {})
    for part in (*parts, *other):
        part.close()


def test_an_offset_that_is_gone_tells_the_gap(cluster: Cluster) -> None:
    topic = uuid4().hex
    cluster.send(topic, b"1", b"2")
    parts = partitions(cluster.table(topic, (), valueFormat="varchar"))
    parts[0].seek({"topic": topic, "partition": 0, "offset": 9})
    with pytest.raises(OperationalError) as caught:
        parts[0].read()
    assert caught.value.message == f'offset 9 of partition 0 of topic "{topic}" no longer exists'
    assert "the offsets 0 to 1" in (caught.value.detail or "")
    for part in parts:
        part.close()


@pytest.mark.parametrize(
    ("offset", "choice", "left", "skipped"),
    [
        (3, ExpiredPosition.EARLIEST, [5, 6, 7], 2),
        (3, ExpiredPosition.LATEST, [], 5),
        (20, ExpiredPosition.EARLIEST, [5, 6, 7], None),
        (20, ExpiredPosition.LATEST, [], None),
    ],
)
def test_reading_goes_on_after_a_gap_where_it_is_told_to(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    offset: int,
    choice: ExpiredPosition,
    left: list[int],
    skipped: int | None,
) -> None:
    """Messages 0 to 4 have gone by retention; or the topic is a new one."""
    topic = uuid4().hex
    cluster.send(topic, *[str(i).encode() for i in range(8)])
    table = cluster.table(topic, (), valueFormat="varchar")
    part, *others = partitions(table)
    monkeypatch.setattr(KafkaPartition, "_bounds", lambda self, client: (5, 8))
    part.seek({"topic": topic, "partition": 0, "offset": offset})
    with pytest.raises(OperationalError, match=f"offset {offset} of partition 0") as caught:
        part.read()
    assert caught.value.code is ErrorCode.POSITION_EXPIRED
    assert "the partition has the offsets 5 to 7" in (caught.value.detail or "")
    found = part.skip_to(choice)
    assert found.rows == skipped
    cluster.send(topic, b"new")
    assert [row[0] for row in available(part, len(left) + 1)] == [*map(str, left), "new"]
    for item in (part, *others):
        item.close()


@pytest.mark.parametrize("choice", [ExpiredPosition.EARLIEST, ExpiredPosition.LATEST])
def test_a_topic_made_anew_with_as_many_messages_is_told(
    cluster: Cluster, choice: ExpiredPosition
) -> None:
    """The offset is there, but what stands before it isn't what was read: by its time."""
    topic, other = uuid4().hex, Cluster()
    for number, made in enumerate((cluster, other)):
        made.send(
            topic,
            *[f"{number} {i}".encode() for i in range(9)],
            timestamp=1_700_000_000_000 + number,
        )
    part, *others = partitions(cluster.table(topic, (), valueFormat="varchar"))
    available(part, 9)
    token = json.loads(json.dumps(part.position()))
    same, *more = partitions(cluster.table(topic, (), valueFormat="varchar"))
    same.seek(token)
    cluster.send(topic, b"on")
    assert available(same, 1) == [("on",)]
    anew, *rest = partitions(other.table(topic, (), valueFormat="varchar"))
    anew.seek({**token, "offset": 9})
    with pytest.raises(OperationalError, match="no longer exists") as caught:
        available(anew, 1)
    assert "created again" in (caught.value.detail or "")
    assert caught.value.code is ErrorCode.POSITION_EXPIRED
    assert anew.skip_to(choice).rows is None
    other.send(topic, b"new")
    wanted = [f"1 {i}" for i in range(9)] if choice is ExpiredPosition.EARLIEST else []
    assert [row[0] for row in available(anew, len(wanted) + 1)] == [*wanted, "new"]
    for item in (part, *others, same, *more, anew, *rest):
        item.close()


def test_what_a_group_has_committed_and_is_gone_is_told(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = uuid4().hex
    cluster.send(topic, b"1", b"2")
    group = ck.Consumer({"bootstrap.servers": cluster.servers, "group.id": "late"})
    group.commit(offsets=[ck.TopicPartition(topic, 0, 99)], asynchronous=False)
    group.close()
    table = cluster.table(topic, (), valueFormat="varchar", **{"group.id": "late"})
    with caplog.at_level("WARNING"):
        for part in partitions(table):
            part.close()
    assert "offset 99 of partition 0" in "\n".join(caplog.messages)
    del table.client_options["auto.offset.reset"]
    with pytest.raises(
        OperationalError, match='which group "late" has committed, no longer exists'
    ) as caught:
        partitions(table)
    assert "auto.offset.reset" in (caught.value.hint or "")


def test_a_broker_that_is_down_is_waited_for_as_long_as_the_statement_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []

    class Down:
        def list_topics(self, topic: str, timeout: float) -> Any:
            waits.append(timeout)
            raise ck.KafkaException(ck.KafkaError(ck.KafkaError._TRANSPORT))

        def close(self) -> None:
            pass

    with runnel.connect() as connection:
        connection.execute(
            "CREATE MAPPING z (k INT) TYPE Kafka OPTIONS ('valueFormat'='json-flat', "
            "'bootstrap.servers'='127.0.0.1:1')"
        )
        monkeypatch.setattr("runnel.connectors.kafka.source.consumer", lambda options: Down())
        for timeout in (5, None):
            with pytest.raises(OperationalError):
                connection.execute("SELECT * FROM z", timeout=timeout).fetchone()
    assert 0 < waits[0] <= 5 and waits[1:] == [10]


def test_a_query_reads_all_partitions_and_writes_come_back(cluster: Cluster) -> None:
    topic = uuid4().hex
    cluster.send(topic, b'{"id": 0}')
    with runnel.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(
            "CREATE DATA CONNECTION cluster TYPE Kafka "
            f"OPTIONS ('bootstrap.servers' = '{cluster.servers}', "
            "'auto.offset.reset' = 'earliest')"
        )
        assert (topic, "TOPIC") in [
            tuple(row) for row in cursor.execute("SHOW RESOURCES FOR cluster").fetchall()
        ]
        cursor.execute(
            f'CREATE MAPPING t EXTERNAL NAME "{topic}" (__key BIGINT, id BIGINT, '
            "name VARCHAR) DATA CONNECTION cluster "
            "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'json-flat')"
        )
        cursor.execute("INSERT INTO t SELECT v, v, 'n' || v FROM TABLE(generate_series(1, 1000))")
        assert cursor.rowcount == 1000
        stream = connection.cursor().execute("SELECT id, name, __key FROM t LIMIT 1001")
        assert sorted(stream.fetchall(), key=lambda row: row[0]) == [
            (0, None, None),
            *((i, f"n{i}", i) for i in range(1, 1001)),
        ]


@pytest.mark.parametrize(
    ("columns", "options", "rows", "messages"),
    [
        ("__key VARCHAR, id BIGINT, name VARCHAR", (
            "'keyFormat'='varchar','valueFormat'='json-flat'"
        ),
         "('k', 1, 'a'), (NULL, 2, NULL)",
         [(b"k", b'{"id":1,"name":"a"}'), (None, b'{"id":2,"name":null}')]),
        ("id BIGINT, name VARCHAR", "'valueFormat'='csv'", (
            "(1, 'a,\n b'), (2, NULL)"
        ), [(None, b'1,"a,\n b"'), (None, b"2,")]),
        ("id BIGINT, name VARCHAR", (
            f"'valueFormat'='avro','valueAvroSchema'='{json.dumps(AVRO)}'"
        ), "(1, 'a')",
         [(None, avro({"id": 1, "name": "a"}))]),
        ("__key INT, this DOUBLE", (
            "'keyFormat'='int','valueFormat'='double'"
        ), "(7, 0.5), (8, NULL)",
         [(struct.pack(">i", 7), struct.pack(">d", 0.5)), (struct.pack(">i", 8), None)]),
        ("this VARBINARY", "'valueFormat'='varbinary'", "(X'ff00')", [(None, b"\xff\x00")]),
        ("this DATE", "'valueFormat'='date'", "(DATE '2024-02-29')", [(None, b"2024-02-29")]),
    ],
)  # fmt: skip
def test_what_is_written(
    cluster: Cluster, columns: str, options: str, rows: str, messages: list[Any]
) -> None:
    topic = uuid4().hex
    cluster.send(topic, b"first")
    with runnel.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(
            f'CREATE MAPPING t EXTERNAL NAME "{topic}" ({columns}) TYPE Kafka '
            f"OPTIONS ('bootstrap.servers'='{cluster.servers}', {options})"
        )
        cursor.execute(f"SINK INTO t VALUES {rows}")
    assert cluster.received(topic, len(messages) + 1) == sorted(
        [(None, b"first"), *messages], key=repr
    )


def test_a_statement_that_fails_sends_nothing(cluster: Cluster) -> None:
    topic = uuid4().hex
    cluster.send(topic, b"first")
    with runnel.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(
            f'CREATE MAPPING t EXTERNAL NAME "{topic}" TYPE Kafka '
            f"OPTIONS ('bootstrap.servers'='{cluster.servers}', 'valueFormat'='varchar')"
        )
        with pytest.raises(DataError):
            cursor.execute(
                "INSERT INTO t SELECT CAST(1 / (v - 90000) AS VARCHAR) "
                "FROM TABLE(generate_series(1, 100000))"
            )
    assert cluster.received(topic, 1) == [(None, b"first")]


@pytest.mark.parametrize(
    ("options", "columns", "said"),
    [
        ({"bootstrap.servers": ""}, FIELDS, None),
        ({"valueFormat": "xml"}, FIELDS, "it accepts json-flat"),
        ({"valueFormat": "json_flat"}, FIELDS, 'did you mean "json-flat"?'),
        ({"valueFormat": "csv"}, [("a", array(BIGINT))], None),
        ({"valueFormat": "bigint"}, FIELDS, "declare this BIGINT"),
        ({"valueFormat": "bigint"}, [("this", VARCHAR)], "declare this BIGINT"),
        ({}, [("__key", BIGINT), ("a", BIGINT)], "add 'keyFormat'"),
        ({}, (), "name its fields"),
        ({}, [("this", BIGINT)], "declare the fields"),
        ({"valueFormat": "avro", "valueAvroSchema": "{"}, FIELDS, "JSON text"),
        ({"bootstrap.server": "x"}, FIELDS, "CONFIGURATION.md"),
        ({"onError": "ignore"}, FIELDS, "fail, skip or divert"),
    ],
)
def test_wrong_definitions(
    cluster: Cluster, options: dict[str, str], columns: Any, said: str | None
) -> None:
    with pytest.raises(ProgrammingError) as caught:
        cluster.table("t", columns, **options)
    assert said is None or said in (caught.value.hint or "")


def test_what_is_missing_is_named(cluster: Cluster) -> None:
    columns = (ColumnDefinition("a", BIGINT),)
    with pytest.raises(ProgrammingError, match=r"bootstrap\.servers") as caught:
        KafkaConnector().open(
            MappingDefinition("m", columns, {"valueFormat": "csv", "boostrap.servers": "x"})
        )
    assert caught.value.hint == 'did you mean "bootstrap.servers"?'
    with pytest.raises(NotSupportedError, match="registry"):
        cluster.table("t", **{"schema.registry.url": "http://x"})
    with pytest.raises(OperationalError) as absent:
        partitions(cluster.table("no such topic"))
    assert absent.value.message == 'Kafka topic "no such topic" not found'


def test_a_broker_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runnel.connectors.kafka.client.SECONDS", 0.3)
    options = {"valueFormat": "varchar", "bootstrap.servers": "127.0.0.1:1"}
    table = KafkaConnector().open(MappingDefinition("m", (), options))
    assert isinstance(table, KafkaTable)
    with pytest.raises(OperationalError) as caught:
        partitions(table)
    assert "is the broker up" in (caught.value.hint or "")


@pytest.mark.needs_broker
@pytest.mark.skipif(BROKER is None, reason="needs a broker: RUNNEL_KAFKA=host:port")
def test_against_a_real_broker() -> None:
    topic = f"runnel-test-{uuid4().hex}"
    real = Cluster(BROKER)
    real.send(
        topic,
        *[
            json.dumps({"id": i, "at": f"2024-01-01 00:00:{i:02}", "x": i / 2}).encode()
            for i in range(60)
        ],
    )
    columns: list[tuple[str, SqlType]] = [("id", BIGINT), ("at", TIMESTAMP), ("x", DOUBLE)]
    rows = read(real.table(topic, columns), 60)
    assert rows == [(i, datetime(2024, 1, 1, 0, 0, i), i / 2) for i in range(60)]


def test_a_line_of_the_client_is_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    for number in range(3):
        for broker in ("a:1", "b:1"):
            client.CLIENT_LOGGER.error(
                "FAIL [rdkafka#consumer-%d] [thrd:%s]: Connection refused (after %dms)",
                number,
                broker,
                number * 7,
            )
    assert [record.args[1] for record in caplog.records if isinstance(record.args, tuple)] == [
        "a:1",
        "b:1",
    ]
