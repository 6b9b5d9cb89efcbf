"""Topics of changes: Debezium's events, and upserts with tombstones, as inputs of live queries."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import runnel
from tests.connectors.kafka.test_kafka import Cluster
from tests.jobs.feeds import PATIENCE
from tests.waiting import eventually

pytest.importorskip("confluent_kafka")


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect(query_parallelism=2) as made:
        yield made


def send(cluster: Cluster, topic: str, operation: str, before: Any, after: Any) -> None:
    event = {"before": before, "after": after, "op": operation, "source": {"lsn": 1}}
    cluster.send(topic, json.dumps(event).encode(), key=b"1")


def fetch(cursor: Any, count: int) -> Counter[tuple[Any, ...]]:
    """The sums of the weights of the next rows."""
    found: Counter[tuple[Any, ...]] = Counter()
    for _ in range(count):
        _, weight, *row = cursor.fetchone()
        found[tuple(row)] += weight
    return found


@pytest.mark.parametrize("key", ["", "PRIMARY KEY (id) NOT ENFORCED"])
def test_events_of_debezium(con: runnel.Connection, cluster: Cluster, key: str) -> None:
    topic = f"orders_{len(key)}"
    con.execute(
        f"CREATE TABLE orders (id BIGINT, name STRING{key and f', {key}'}) WITH ("
        f"'connector' = 'kafka', 'topic' = '{topic}', 'format' = 'debezium-json', "
        f"'properties.group.id' = 'g', 'properties.bootstrap.servers' = '{cluster.servers}')"
    )
    send(cluster, topic, "r", None, {"id": 1, "name": "x"})
    with con.execute("SELECT * FROM orders EMIT CHANGES") as cursor:
        assert fetch(cursor, 1) == Counter({(1, "x"): 1})
        send(cluster, topic, "u", {"id": 1, "name": "x"}, {"id": 1, "name": "y"})
        assert fetch(cursor, 2) == Counter({(1, "x"): -1, (1, "y"): 1})
        send(cluster, topic, "d", {"id": 1, "name": "y"}, None)
        cluster.send(topic, None, key=b"1")  # the tombstone after a deletion
        assert fetch(cursor, 1) == Counter({(1, "y"): -1})
        send(cluster, topic, "d", {"id": 1, "name": "y"}, None)
        with pytest.raises(runnel.DataError, match="removes a row") as error:
            cursor.fetchone()
        assert f'topic "{topic}", partition 0, offset 4: row (1, y)' in (error.value.detail or "")


def test_a_job_follows_a_topic(con: runnel.Connection, cluster: Cluster) -> None:
    con.execute(
        "CREATE MAPPING events EXTERNAL NAME payments (id BIGINT, name VARCHAR, n BIGINT) TYPE "
        "Kafka OPTIONS ('valueFormat' = 'json-flat', 'changes' = 'debezium', 'changeKey' = 'id', "
        f"'bootstrap.servers' = '{cluster.servers}')"
    )
    con.execute("CREATE TABLE copy (id BIGINT PRIMARY KEY, name VARCHAR, n BIGINT)")
    con.execute("CREATE TABLE totals (name VARCHAR PRIMARY KEY, n BIGINT)")
    send(cluster, "payments", "c", None, {"id": 1, "name": "a", "n": 5})
    send(cluster, "payments", "c", None, {"id": 2, "name": "a", "n": 7})
    con.execute("CREATE JOB j AS INSERT INTO copy SELECT * FROM events")
    con.execute("CREATE JOB t AS INSERT INTO totals SELECT name, SUM(n) FROM events GROUP BY name")

    def holds(table: str, *rows: Any) -> bool:
        query = f"SELECT * FROM {table} ORDER BY 1"
        return eventually(lambda: con.execute(query).fetchall() == [*rows], PATIENCE)

    assert holds("copy", (1, "a", 5), (2, "a", 7))
    assert holds("totals", ("a", 12))
    send(cluster, "payments", "u", None, {"id": 1, "name": "b", "n": 6})
    assert holds("copy", (1, "b", 6), (2, "a", 7))
    assert holds("totals", ("a", 7), ("b", 6))
    for name in ("j", "t"):
        con.execute(f"ALTER JOB {name} SUSPEND")
        assert con.job(name).await_status(runnel.JobStatus.SUSPENDED, PATIENCE)
    send(cluster, "payments", "d", {"id": 2}, None)
    for name in ("j", "t"):
        con.execute(f"ALTER JOB {name} RESUME")
    assert holds("copy", (1, "b", 6))
    assert holds("totals", ("b", 6))


def test_a_key_in_the_value_and_a_tombstone(con: runnel.Connection, cluster: Cluster) -> None:
    con.execute(
        "CREATE TABLE counts (page STRING, n BIGINT, PRIMARY KEY (page) NOT ENFORCED) WITH ("
        "'connector' = 'upsert-kafka', 'topic' = 'pages', 'key.format' = 'json', "
        f"'value.format' = 'json', 'properties.bootstrap.servers' = '{cluster.servers}')"
    )

    def put(page: str, n: int | None) -> None:
        key = json.dumps({"page": page}).encode()
        value = None if n is None else json.dumps({"page": page, "n": n}).encode()
        cluster.send("pages", value, key=key)

    put("gone", None)  # its row was compacted
    put("a", 1)
    with con.execute("SELECT SUM(n) AS s, COUNT(*) FROM counts EMIT CHANGES") as cursor:
        while fetch(cursor, 1) != Counter({(1, 1): 1}):
            pass
        put("b", 2)
        assert fetch(cursor, 2) == Counter({(1, 1): -1, (3, 2): 1})
        put("a", None)
        assert fetch(cursor, 2) == Counter({(3, 2): -1, (2, 1): 1})


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("__key VARCHAR, n BIGINT", "'keyFormat' = 'varchar'", "part of the key of messages"),
        ("n BIGINT", "'valueFormat' = 'csv'", "needs 'valueFormat'"),
        ("n BIGINT", "'changeKey' = 'm'", '"m", which is no column'),
    ],
)
def test_wrong_options(
    con: runnel.Connection, cluster: Cluster, columns: str, options: str, message: str
) -> None:
    if "valueFormat" not in options:
        options += ", 'valueFormat' = 'json-flat'"
    with pytest.raises(runnel.ProgrammingError, match=message):
        con.execute(
            f"CREATE MAPPING t ({columns}) TYPE Kafka OPTIONS ('changes' = 'debezium', {options}, "
            f"'bootstrap.servers' = '{cluster.servers}')"
        )
