"""Kafka topics written by jobs that are killed: the order of the client's calls on librdkafka's
mock cluster, and what a recovery sends, on a broker of our own that keeps to the rules of
transactions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from runnel.connector import ColumnDefinition, MappingDefinition, SinkRequest, WriteMode
from runnel.connectors.kafka import job_sink as kafka_job_sink
from runnel.connectors.kafka import transactions as kafka_transactions
from runnel.connectors.kafka.transactions import Message
from runnel.errors import OperationalError
from runnel.processor import Guarantee
from runnel.sqltypes import BIGINT, VARCHAR
from tests.sinks.crashing_job import Crash, CrashingJob
from tests.sinks.durable_conformance import OWNER

ck = pytest.importorskip("confluent_kafka")

from runnel.connectors.kafka.connector import KafkaConnector  # noqa: E402

BROKER = os.environ.get("RUNNEL_KAFKA")
COLUMNS = (ColumnDefinition("__key", BIGINT), ColumnDefinition("this", VARCHAR))


def batch(*numbers: int) -> pa.RecordBatch:
    texts = [None if number % 5 == 4 else f"ü{number}" for number in numbers]
    return pa.RecordBatch.from_pydict(
        {"k": pa.array(numbers, pa.int64()), "v": pa.array(texts, pa.string())}
    )


def message(number: int) -> Message:
    return number.to_bytes(8, "big"), None if number % 5 == 4 else f"ü{number}".encode()


def opened(servers: str, topic: str, **options: str) -> Any:
    given = {
        "keyFormat": "bigint",
        "valueFormat": "varchar",
        "bootstrap.servers": servers,
        **options,
    }
    return KafkaConnector().open(MappingDefinition("m", COLUMNS, given, external_name=topic))


def durable(table: Any, owner: str = OWNER) -> Any:
    return table.sink(SinkRequest(WriteMode.SINK, (0, 1), owner))


class Broker:
    """Messages and offsets of a group become visible together, or not at all."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.offsets: dict[str, int] = {}
        self.random: Random | None = None

    def may_fail(self) -> None:
        if self.random is not None and self.random.random() < 0.15:
            raise Crash


def transactions_on(broker: Broker) -> type:
    class OwnTransactions:
        def __init__(self, options: Mapping[str, str], topic: str, owner: str) -> None:
            self._owner = owner

        def last(self) -> int:
            return self.last_of(self._owner)

        def last_of(self, owner: str) -> int:
            return broker.offsets.get(owner, 0)

        def send(self, messages: Sequence[Message], number: int, owner: str | None = None) -> None:
            owner = owner or self._owner
            assert number > self.last_of(owner), "sent again"
            broker.may_fail()
            broker.messages += messages
            broker.offsets[owner] = number
            broker.may_fail()

        def close(self) -> None:
            pass

    return OwnTransactions


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    monkeypatch.setattr(kafka_job_sink, "Transactions", transactions_on(made))
    return made


def test_the_table_promises_it() -> None:
    assert opened("nowhere:9092", "t").guarantee is Guarantee.EXACTLY_ONCE


def test_a_job_killed_again_and_again_sends_each_message_once(broker: Broker) -> None:
    crashes = 0
    rows = [batch(*range(i, i + 3)) for i in range(0, 36, 3)]
    table = opened("nowhere:9092", "t")
    for seed in range(20):
        broker.messages, broker.offsets, broker.random = [], {}, Random(seed)
        job = CrashingJob(seed, rows, lambda: durable(table))
        job.run()
        crashes += job.crashes
        assert broker.messages == [message(i) for i in range(36)], seed
        assert job.counted == 36
    assert crashes > 100


def test_numbers_rise_over_a_snapshot_that_is_older_than_what_was_sent(broker: Broker) -> None:
    first = durable(opened("nowhere:9092", "t"))
    first.recover(())
    tokens = []
    for i in range(3):
        first.write(batch(i))
        tokens.append(first.stage(i + 1))
        first.commit(tokens[-1])
    assert broker.offsets == {OWNER: 3}
    again = durable(opened("nowhere:9092", "t"))
    again.recover(tokens[:1])
    again.write(batch(7))
    again.commit(again.stage(2))
    assert broker.messages == [message(0), message(1), message(2), message(7)]
    assert broker.offsets == {OWNER: 4}


def test_a_token_holds_the_messages(broker: Broker) -> None:
    sink = durable(opened("nowhere:9092", "t"))
    sink.recover(())
    sink.write(batch(*range(1000)))
    token = json.loads(json.dumps(sink.stage(1)))
    del sink
    assert broker.messages == []
    again = durable(opened("nowhere:9092", "t"))
    again.recover([token])
    again.recover([token])
    assert broker.messages == [message(i) for i in range(1000)]
    assert len(json.dumps(token)) < 12_000


@pytest.mark.parametrize("sent", [False, True])
def test_a_snapshot_of_another_job_sends_only_what_that_one_did_not(
    broker: Broker, sent: bool
) -> None:
    first = durable(opened("nowhere:9092", "t"))
    first.recover(())
    first.write(batch(1))
    token = first.stage(1)
    if sent:
        first.commit(token)
    other = durable(opened("nowhere:9092", "t"), "another job/write t")
    other.recover([token])
    assert broker.messages == [message(1)]
    other = durable(opened("nowhere:9092", "t"), "another job/write t")
    other.recover([token])
    assert broker.messages == [message(1)], "it was killed before its first snapshot"
    other.write(batch(2))
    other.commit(other.stage(1))
    assert broker.messages == [message(1), message(2)]
    assert broker.offsets == {OWNER: 1, "another job/write t": 1}


def test_an_epoch_without_messages_begins_no_transaction(broker: Broker) -> None:
    sink = durable(opened("nowhere:9092", "t"))
    sink.recover(())
    token = sink.stage(1)
    sink.write(batch(1))
    sink.commit(token)
    assert broker.messages == []
    assert broker.offsets == {}


class Recorded:
    """Notes the calls that reach a client."""

    def __init__(self, client: Any, calls: list[str]) -> None:
        self._client = client
        self._calls = calls
        self.failures: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        def called(*arguments: Any, **options: Any) -> Any:
            if name not in ("poll", "list_topics") and self._calls[-1:] != [name]:
                self._calls.append(name)
            if self.failures and self.failures[0][0] == name:
                raise self.failures.pop(0)[1]
            return getattr(self._client, name)(*arguments, **options)

        return called


class Mock:
    """librdkafka's mock cluster, whose clients' calls are noted."""

    def __init__(self) -> None:
        self.client = ck.Producer({"test.mock.num.brokers": 1, "log_level": 0})
        found = self.client.list_topics(timeout=10).brokers.values()
        self.servers = ",".join(f"{item.host}:{item.port}" for item in found)
        self.calls: list[str] = []
        self.producers: list[Recorded] = []

    def received(self, topic: str) -> list[Message]:
        client = ck.Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": uuid4().hex,
                "enable.partition.eof": True,
            }
        )
        numbers = sorted(client.list_topics(topic, timeout=10).topics[topic].partitions)
        client.assign([ck.TopicPartition(topic, number, 0) for number in numbers])
        ended, found = 0, []
        while ended < len(numbers):
            item = client.poll(10)
            if item.error() is None:
                found.append((item.key(), item.value()))
            else:
                ended += 1
        client.close()
        return sorted(found, key=repr)


@pytest.fixture
def mock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mock]:
    made = Mock()
    original = kafka_transactions.producer

    def producer(options: Mapping[str, str]) -> Recorded:
        assert options["transactional.id"].endswith(f"-{OWNER}")
        made.producers.append(Recorded(original({**options, "log_level": "0"}), made.calls))
        return made.producers[-1]

    monkeypatch.setattr(kafka_transactions, "producer", producer)
    yield made
    made.client.flush(1)


def test_the_order_of_calls(mock: Mock) -> None:
    topic = uuid4().hex
    sink = durable(opened(mock.servers, topic))
    sink.recover(())
    assert mock.calls == [], "who only gives up what was staged needs no broker"
    sink.write(batch(1, 2, 3))
    token = sink.stage(1)
    assert mock.received(topic) == []
    assert mock.calls == ["init_transactions"]
    sink.commit(token)
    epoch = ["begin_transaction", "produce", "send_offsets_to_transaction", "commit_transaction"]
    assert mock.calls == ["init_transactions", *epoch]
    assert mock.received(topic) == sorted(map(message, (1, 2, 3)), key=repr)
    sink.write(batch(4))
    sink.commit(sink.stage(2))
    assert mock.calls == ["init_transactions", *epoch, *epoch]
    sink.close()


@pytest.mark.parametrize("sent", [False, True])
def test_recovery_knows_whether_to_send_again(mock: Mock, sent: bool) -> None:
    topic = uuid4().hex
    sink = durable(opened(mock.servers, topic))
    sink.recover(())
    sink.write(batch(1))
    token = sink.stage(1)
    sink.close()
    if sent:
        # The mock forgets the offsets of transactions; these are committed as any group's are.
        group = ck.Consumer({"bootstrap.servers": mock.servers, "group.id": f"runnel-{OWNER}"})
        group.commit(offsets=[ck.TopicPartition(topic, 0, token["number"])], asynchronous=False)
        group.close()
    again = durable(opened(mock.servers, topic))
    again.recover([token])
    assert mock.received(topic) == ([] if sent else [message(1)])
    again.write(batch(2))
    assert again.stage(2)["number"] == 2
    again.close()


def failure(*, retriable: bool) -> Exception:
    error: Exception = ck.KafkaException(
        ck.KafkaError(ck.KafkaError._TIMED_OUT, "slow", retriable=retriable)
    )
    return error


def test_a_step_that_may_succeed_yet_is_tried_again(mock: Mock) -> None:
    topic = uuid4().hex
    sink = durable(opened(mock.servers, topic))
    sink.recover(())
    sink.write(batch(1))
    token = sink.stage(1)
    mock.producers[0].failures = [("send_offsets_to_transaction", failure(retriable=True))] * 3
    sink.commit(token)
    assert mock.received(topic) == [message(1)]
    sink.close()


def test_a_failed_transaction_is_given_up_and_sent_again_by_the_next_process(mock: Mock) -> None:
    topic = uuid4().hex
    sink = durable(opened(mock.servers, topic))
    sink.recover(())
    sink.write(batch(1))
    token = sink.stage(1)
    mock.producers[0].failures = [("send_offsets_to_transaction", failure(retriable=False))]
    with pytest.raises(OperationalError, match=r"1 messages can't be written to topic") as caught:
        sink.commit(token)
    assert "is the broker up" in (caught.value.hint or "")
    assert mock.calls[-2:] == ["send_offsets_to_transaction", "abort_transaction"]
    sink.close()
    again = durable(opened(mock.servers, topic))
    again.recover([token])
    assert mock.calls[-1] == "commit_transaction"
    again.close()


@pytest.mark.needs_broker
@pytest.mark.skipif(BROKER is None, reason="needs a broker: RUNNEL_KAFKA=host:port")
def test_exactly_once_on_a_real_broker() -> None:
    assert BROKER is not None
    topic = f"runnel-test-{uuid4().hex}"
    owner = uuid4().hex
    rows = [batch(*range(i, i + 3)) for i in range(0, 36, 3)]
    ck.Producer({"bootstrap.servers": BROKER}).list_topics(topic, timeout=10)
    for seed in range(3):
        CrashingJob(
            seed, rows, lambda seed=seed: durable(opened(BROKER, topic), f"{owner}-{seed}")
        ).run()  # type: ignore[misc]
    client = ck.Consumer(
        {"bootstrap.servers": BROKER, "group.id": uuid4().hex, "auto.offset.reset": "earliest",
         "isolation.level": "read_committed"}
    )  # fmt: skip
    client.subscribe([topic])
    found = []
    while (item := client.poll(15)) is not None and item.error() is None:
        found.append((item.key(), item.value()))
    client.close()
    assert sorted(found, key=repr) == sorted([message(i) for i in range(36)] * 3, key=repr)
