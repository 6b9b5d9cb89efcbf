"""Topics with the latest row of each key: messages with a key, and tombstones."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from uuid import uuid4

import pytest

import runnel
from tests.connectors.kafka.test_kafka import Cluster
from tests.jobs.feeds import PATIENCE

ck = pytest.importorskip("confluent_kafka")

QUERY = "SELECT page, COUNT(*) FROM clicks GROUP BY page HAVING COUNT(*) < 3"


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect() as made:
        yield made


def messages(cluster: Cluster, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """All messages of a topic; the messages of a key in their order."""
    options = {"bootstrap.servers": cluster.servers, "group.id": uuid4().hex}
    consumer = ck.Consumer({**options, "enable.partition.eof": True})
    partitions = [
        ck.TopicPartition(topic, number, 0)
        for number in consumer.list_topics(topic, timeout=10).topics[topic].partitions
    ]
    consumer.assign(partitions)
    ended, found = 0, []
    while ended < len(partitions):
        message = consumer.poll(10)
        assert message is not None
        if message.error() is None:
            found.append((message.key(), message.value()))
        else:
            assert message.error().code() == ck.KafkaError._PARTITION_EOF
            ended += 1
    consumer.close()
    return found


@pytest.mark.parametrize("includes_key", [True, False])
def test_a_job_writes_upserts_and_tombstones(
    con: runnel.Connection, cluster: Cluster, includes_key: bool
) -> None:
    topic = f"counts_{includes_key}".lower()
    more = "" if includes_key else ", 'value.fields-include' = 'EXCEPT_KEY'"
    con.execute(
        "CREATE TABLE counts (page STRING, n BIGINT, PRIMARY KEY (page) NOT ENFORCED) WITH ("
        f"'connector' = 'upsert-kafka', 'topic' = '{topic}', 'key.format' = 'json', "
        f"'value.format' = 'json', 'properties.bootstrap.servers' = '{cluster.servers}'{more})"
    )
    clicks = con.register_stream("clicks", {"page": "VARCHAR"})
    [(_, name)] = con.execute(f"INSERT INTO counts {QUERY}").fetchall()
    clicks.write([("a",), ("b",), ("a",)])
    clicks.write([("c",)])
    clicks.write([("c",), ("c",)])
    clicks.close()
    con.job(name).join(PATIENCE)
    latest: dict[str, object] = {}
    for key, value in messages(cluster, topic):
        assert key is not None
        latest[json.loads(key)["page"]] = None if value is None else json.loads(value)
    a, b = ({"page": "a", "n": 2}, {"page": "b", "n": 1}) if includes_key else ({"n": 2}, {"n": 1})
    assert {page: value for page, value in latest.items() if value is not None} == {"a": a, "b": b}
    with con.execute("SELECT page, n FROM counts EMIT CHANGES") as cursor:
        present: Counter[tuple[str, int]] = Counter()
        while +present != Counter([("a", 2), ("b", 1)]):
            _, weight, *row = cursor.fetchone()
            present[tuple(row)] += weight


def test_a_deletion_is_a_message_without_value(cluster: Cluster) -> None:
    import pyarrow as pa

    from runnel.columns.write_modes import WriteMode
    from runnel.connector import ColumnDefinition, MappingDefinition, SinkRequest
    from runnel.connectors.kafka.connector import KafkaConnector
    from runnel.connectors.kafka.upserts import UpsertedTopic
    from runnel.sqltypes import BIGINT, VARCHAR

    columns = (ColumnDefinition("__key", VARCHAR), ColumnDefinition("n", BIGINT))
    options = {
        "keyFormat": "varchar",
        "valueFormat": "json-flat",
        "changes": "upsert",
        "bootstrap.servers": cluster.servers,
    }
    table = KafkaConnector().open(MappingDefinition("deleted", columns, options))
    assert isinstance(table, UpsertedTopic)
    sink = table.sink(SinkRequest(WriteMode.CHANGES, (0, 1)))
    rows = {"k": ["a", "b"], "n": [1, 2], "kind": pa.array([0, 3], pa.int8())}
    sink.write(pa.RecordBatch.from_pydict(rows))
    sink.commit(sink.stage(0))
    sink.close()
    assert sorted(messages(cluster, "deleted")) == [(b"a", b'{"n":1}'), (b"b", None)]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("'changes' = 'all'", "wrong value 'all' for option \"changes\""),
        ("'valueIncludesKey' = 'true'", "is for 'changes' = 'upsert'"),
        ("'changes' = 'upsert'", "has no key"),
    ],
)
def test_wrong_options(con: runnel.Connection, cluster: Cluster, more: str, message: str) -> None:
    with pytest.raises(runnel.ProgrammingError, match=message):
        con.execute(
            "CREATE MAPPING t (n BIGINT) TYPE Kafka OPTIONS ('valueFormat' = 'json-flat', "
            f"'bootstrap.servers' = '{cluster.servers}', {more})"
        )
