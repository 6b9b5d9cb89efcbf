"""Writes to a Kafka topic in a light job. Rows are sent at the commit, so a job that fails has
sent nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from runnel.columns.write_modes import RowKind, WriteMode
from runnel.connector import Sink, SinkRequest, Token
from runnel.connectors.kafka.client import failed, look_seconds, partitions_of, producer, seconds
from runnel.connectors.kafka.payloads import Topic
from runnel.sqltypes import to_arrow

Message = tuple[bytes | None, bytes | None]


def encoded(table: Topic, columns: Sequence[int], batch: pa.RecordBatch) -> Iterable[Message]:
    """The messages, as keys and values, of rows of these columns."""
    arrays_by_index = dict(zip(columns, batch.columns, strict=True))
    payloads: list[list[bytes | None]] = []
    for side, indexes in (
        (table.key_side, table.key_indexes),
        (table.value_side, table.value_indexes),
    ):
        if side is None:
            payloads.append([None] * batch.num_rows)
            continue
        arrays = [
            arrays_by_index[index]
            if index in arrays_by_index
            else pa.nulls(batch.num_rows, to_arrow(table.columns[index].type))
            for index in indexes
        ]
        payloads.append(side.encode(arrays))
    return zip(*payloads, strict=True)


def messages_of(table: Topic, request: SinkRequest, batch: pa.RecordBatch) -> Iterable[Message]:
    """The messages of the rows to write. A row of CHANGES that is deleted has no value."""
    if request.mode is not WriteMode.CHANGES:
        return encoded(table, request.columns, batch)
    width = batch.num_columns - 1
    messages = encoded(table, request.columns, batch.select(range(width)))
    kinds = batch.column(width).to_pylist()
    return [
        (key, None if kind == RowKind.DELETE else value)
        for (key, value), kind in zip(messages, kinds, strict=True)
    ]


class KafkaSink(Sink):
    """Appends messages to a topic."""

    def __init__(self, table: Topic, request: SinkRequest) -> None:
        self._table = table
        self._request = request
        self._messages: list[Message] = []
        self._staged: dict[str, list[Message]] = {}
        self._client: Any = None

    def write(self, batch: pa.RecordBatch) -> None:
        self._messages.extend(messages_of(self._table, self._request, batch))

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
        """Sends the messages; the broker has all of them when it returns."""
        if not messages:
            return
        topic = self._table.topic
        if self._client is None:
            self._client = producer(self._table.client_options)
            partitions_of(self._client, topic)
        client, errors = self._client, []

        def on_delivery_report(error: Any, _: Any) -> None:
            if error is not None:
                errors.append(error)

        try:
            for key, value in messages:
                while not errors:
                    try:
                        client.produce(topic, value=value, key=key, on_delivery=on_delivery_report)
                        break
                    except BufferError:
                        client.poll(look_seconds())
                client.poll(0)
                if errors:
                    break
            while not errors and client.flush(look_seconds()):
                # The client discards a message after 'message.timeout.ms', and reports it.
                pass
        except BaseException:
            # The client must not continue to send the remaining messages.
            client.purge()
            client.flush(seconds())
            raise
        if errors:
            client.purge()
            client.flush(seconds())
            raise failed(
                f'{len(messages)} messages can\'t all be written to topic "{topic}"', errors[0]
            )
