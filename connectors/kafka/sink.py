"""Writing to a Kafka topic in a light job: its rows are sent when it commits, so that one that
fails has sent nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from runnel.connector import Sink, SinkRequest, Token
from runnel.connectors.kafka.client import failed, look_seconds, partitions_of, producer, seconds
from runnel.connectors.kafka.payloads import Topic
from runnel.sqltypes import to_arrow

Message = tuple[bytes | None, bytes | None]


def encoded(table: Topic, columns: Sequence[int], batch: pa.RecordBatch) -> Iterable[Message]:
    """The messages of rows of these columns: keys and values."""
    given = dict(zip(columns, batch.columns, strict=True))
    sides: list[list[bytes | None]] = []
    for side, places in (
        (table.key_side, table.key_indexes),
        (table.value_side, table.value_indexes),
    ):
        if side is None:
            sides.append([None] * batch.num_rows)
            continue
        arrays = [
            given[place]
            if place in given
            else pa.nulls(batch.num_rows, to_arrow(table.columns[place].type))
            for place in places
        ]
        sides.append(side.encode(arrays))
    return zip(*sides, strict=True)


class KafkaSink(Sink):
    """Appends messages to a topic."""

    def __init__(self, table: Topic, request: SinkRequest) -> None:
        self._table = table
        self._columns = request.columns
        self._messages: list[Message] = []
        self._staged: dict[str, list[Message]] = {}
        self._client: Any = None

    def write(self, batch: pa.RecordBatch) -> None:
        self._messages.extend(encoded(self._table, self._columns, batch))

    def stage(self, epoch: int) -> Token:
        messages, self._messages = self._messages, []
        name = str(epoch)
        self._staged[name] = messages
        return {"topic": self._table.topic, "rows": name}

    def commit(self, token: Token) -> None:
        self._send(self._staged.pop(token["rows"], []))

    def abort(self, token: Token | None) -> None:
        if token is None:
            self._messages = []
            self._staged.clear()
        else:
            self._staged.pop(token["rows"], None)

    def close(self) -> None:
        self._messages = []
        self._staged.clear()
        self._client = None

    def _send(self, messages: list[Message]) -> None:
        """All are at the broker when it returns."""
        if not messages:
            return
        topic = self._table.topic
        if self._client is None:
            self._client = producer(self._table.client_options)
            partitions_of(self._client, topic)
        client, errors = self._client, []

        def told(error: Any, _: Any) -> None:
            if error is not None:
                errors.append(error)

        try:
            for key, value in messages:
                while not errors:
                    try:
                        client.produce(topic, value=value, key=key, on_delivery=told)
                        break
                    except BufferError:
                        client.poll(look_seconds())
                client.poll(0)
                if errors:
                    break
            while not errors and client.flush(look_seconds()):
                # The client gives each message up after 'message.timeout.ms', and says so.
                pass
        except BaseException:
            # What has not been sent isn't: the client would go on with it.
            client.purge()
            client.flush(seconds())
            raise
        if errors:
            client.purge()
            client.flush(seconds())
            raise failed(
                f'{len(messages)} messages can\'t all be written to topic "{topic}"', errors[0]
            )
