"""Writes to a Kafka topic in a durable job: each epoch is one transaction.

The messages of an epoch are stored in its token, and so in the snapshot, until they are sent once
the snapshot is complete.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pyarrow as pa

from runnel.connector import Sink, SinkRequest, Token
from runnel.connectors.kafka.payloads import Topic
from runnel.connectors.kafka.sink import messages_of
from runnel.connectors.kafka.transactions import Message, Transactions

_SCHEMA = pa.schema([pa.field("key", pa.binary()), pa.field("value", pa.binary())])
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")
_MOST_ROWS = 65_536


class KafkaJobSink(Sink):
    """Appends the messages of one execution to a topic.

    The numbers of epochs increase over all executions.
    """

    def __init__(self, table: Topic, request: SinkRequest) -> None:
        self._table = table
        self._request = request
        self._messages: list[Message] = []
        self._staged: dict[int, list[Message]] = {}
        self._transactions: Transactions | None = None
        self._number = 0

    def recover(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            if token["owner"] == self._request.owner:
                self._open()
                self.commit(token)
                self._number = max(self._number, token["number"])
            elif token["number"] > self._open().last_of(token["owner"]):
                # The token is from the job whose snapshot this job begins with, and was not sent by
                # that job. It is recorded under that job's name: until this job has a snapshot of
                # its own, it may get here again.
                messages = _unpacked(token["messages"])
                if messages:
                    self._open().send(messages, token["number"], token["owner"])

    def write(self, batch: pa.RecordBatch) -> None:
        self._messages.extend(messages_of(self._table, self._request, batch))

    def stage(self, epoch: int) -> Token:
        self._open()
        messages, self._messages = self._messages, []
        self._number += 1
        self._staged[self._number] = messages
        return {"owner": self._request.owner, "number": self._number, "messages": _packed(messages)}

    def commit(self, token: Token) -> None:
        number = token["number"]
        messages = self._staged.get(number)
        if messages is None:
            if number <= self._open().last():
                return
            messages = _unpacked(token["messages"])
        if messages:
            self._open().send(messages, number)
        self._staged.pop(number, None)

    def abort(self, token: Token | None) -> None:
        self._messages = []
        if token is not None:
            self._staged.pop(token["number"], None)

    def close(self) -> None:
        self._messages = []
        self._staged.clear()
        transactions, self._transactions = self._transactions, None
        if transactions is not None:
            transactions.close()

    def _open(self) -> Transactions:
        if self._transactions is None:
            table = self._table
            self._transactions = Transactions(
                table.client_options, table.topic, self._request.owner
            )
            self._number = max(self._number, self._transactions.last())
        return self._transactions


def _packed(messages: Sequence[Message]) -> str:
    """Messages as text: Arrow's stream format, compressed."""
    if not messages:
        return ""
    keys, values = zip(*messages, strict=True)
    table = pa.table(
        [pa.chunked_array([keys], pa.binary()), pa.chunked_array([values], pa.binary())],
        schema=_SCHEMA,
    )
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, _SCHEMA, options=_OPTIONS) as writer:
        writer.write_table(table, _MOST_ROWS)
    return base64.b64encode(stream.getvalue()).decode()


def _unpacked(text: str) -> list[Message]:
    if not text:
        return []
    table = pa.ipc.open_stream(base64.b64decode(text)).read_all()
    return list(zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True))
