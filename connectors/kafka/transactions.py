"""Transactions of one job's sink: messages, and the record that they were sent, become visible
together.

The client cannot continue a transaction after a restart, so no transaction is open for longer than
its messages need. The last committed epoch is stored as an offset of a consumer group that belongs
to the sink. It is part of the transaction, and informs the next process which epochs of the
snapshot were sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

from runnel import deadline
from runnel.connectors.kafka.client import (
    calling,
    consumer,
    failed,
    kafka,
    look_seconds,
    partitions_of,
    producer,
    seconds,
)
from runnel.errors import OperationalError

Message = tuple[bytes | None, bytes | None]

MOST_SECONDS = 60.0
"""For how many seconds a step that may still succeed is retried."""


class Transactions:
    """The transactions of one owner on one topic.

    Creating it ends the transactions of all earlier processes: an older process that still runs
    cannot send anything.
    """

    def __init__(self, options: Mapping[str, str], topic: str, owner: str) -> None:
        self._topic = topic
        # Configured names become prefixes, since access rules of the broker refer to them.
        name = f"{options.get('transactional.id', 'runnel')}-{owner}"
        self._options = dict(options)
        self._group = self._group_of(owner)
        self._client = producer({**options, "transactional.id": name})
        partitions_of(self._client, topic)
        self._tried(
            "transactions can't be begun", lambda: self._client.init_transactions(look_seconds())
        )

    def _group_of(self, owner: str) -> Any:
        return consumer(
            {**self._options, "group.id": f"{self._options.get('group.id', 'runnel')}-{owner}"}
        )

    def last(self) -> int:
        """The number of the last epoch that was sent; 0 if none was, or if the broker has
        forgotten it."""
        return self._last_of(self._group)

    def last_of(self, owner: str) -> int:
        """`last` of another owner: of the job whose snapshot this job began with."""
        group = self._group_of(owner)
        try:
            return self._last_of(group)
        finally:
            group.close()

    def _last_of(self, group: Any) -> int:
        what = f'the last epoch sent to topic "{self._topic}" can\'t be looked up'
        with calling(what):
            [found] = group.committed([kafka().TopicPartition(self._topic, 0)], timeout=seconds())
        if found.error is not None:
            raise failed(what, found.error)
        return max(int(found.offset), 0)

    def send(self, messages: Sequence[Message], number: int, owner: str | None = None) -> None:
        """Sends the messages of an epoch: all of them, or none if it fails.

        After a failure with an unknown result, the next process finds the result by `last`; or by
        `last_of` for an epoch of another owner.
        """
        if owner is None:
            self._send(messages, number, self._group)
            return
        group = self._group_of(owner)
        try:
            self._send(messages, number, group)
        finally:
            group.close()

    def _send(self, messages: Sequence[Message], number: int, group_consumer: Any) -> None:
        what = f'{len(messages)} messages can\'t be written to topic "{self._topic}"'
        with calling(what):
            self._client.begin_transaction()
        try:
            self._produce(messages, what)
            topic_partition = kafka().TopicPartition(self._topic, 0, number)
            group = group_consumer.consumer_group_metadata()
            self._tried(
                what,
                lambda: self._client.send_offsets_to_transaction(
                    [topic_partition], group, look_seconds()
                ),
            )
            self._tried(what, lambda: self._client.commit_transaction(look_seconds()))
        except OperationalError:
            self._give_up()
            raise

    def _produce(self, messages: Sequence[Message], what: str) -> None:
        errors: list[Any] = []

        def on_delivery_report(error: Any, _: Any) -> None:
            if error is not None:
                errors.append(error)

        for key, value in messages:
            while not errors:
                try:
                    with calling(what):
                        self._client.produce(
                            self._topic, value=value, key=key, on_delivery=on_delivery_report
                        )
                    break
                except BufferError:
                    self._client.poll(look_seconds())
            self._client.poll(0)
        if errors:
            raise failed(what, errors[0])

    def _tried(self, what: str, step: Callable[[], object]) -> None:
        """Executes a step of the transaction, and repeats it while the client reports that it can
        be retried."""
        until = monotonic() + deadline.seconds(MOST_SECONDS)
        while True:
            try:
                step()
                return
            except kafka().KafkaException as error:
                reason = error.args[0]
                if not reason.retriable() or monotonic() > until:
                    raise failed(what, reason) from error

    def _give_up(self) -> None:
        try:
            self._client.abort_transaction(seconds())
        except kafka().KafkaException:
            # Fenced off, or unreachable: the broker ends the transaction, by its timeout or when
            # the next process begins.
            self._client.purge()

    def close(self) -> None:
        self._group.close()
