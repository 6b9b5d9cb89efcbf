"""Reads a Kafka topic: one source partition per partition of the topic, each with its own consumer.

The start is fixed when the query starts: at the group's committed offset if the options name a
group that has one, else at the topic's end, or with 'auto.offset.reset' = 'earliest' at its
beginning. After that Runnel stores the position (in snapshots); a deleted offset is an error that
states the gap. Partitions that are added to the topic later are seen by the next query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runnel.columns.batches import empty_columns, from_flags, from_numbers
from runnel.connector import (
    END,
    End,
    MalformedRecord,
    Pause,
    ScanRequest,
    Skipped,
    Source,
    SourcePartition,
    SourceTraits,
    Token,
)
from runnel.connectors.files.records.malformed import Malformed
from runnel.connectors.kafka.client import (
    LOGGER,
    calling,
    consumer,
    failed,
    kafka,
    partitions_of,
    seconds,
)
from runnel.connectors.kafka.payloads import Messages, PayloadCodec, Topic, all_sound
from runnel.errors import OperationalError, ProgrammingError, position_expired
from runnel.processor import ExpiredPosition, JobContext
from runnel.sqltypes import TIMESTAMP_TZ, to_arrow

MOST_MESSAGES = 20_000
"""The maximum number of messages per read."""

WAITING_SECONDS = 0.1
"""How many seconds the reads of all partitions together, one after the other, wait for a
message."""

TOMBSTONE = "__tombstone"
"""The hidden column of a log of changes: whether the message has no value."""

FIRST = -2
"""Stands for the first existing offset."""

_STARTS = {
    "earliest": True,
    "smallest": True,
    "beginning": True,
    "latest": False,
    "largest": False,
    "end": False,
}


class KafkaSource(Source):
    """A scan of a topic. Blocking: it waits for messages."""

    cooperative = False
    traits = SourceTraits(is_repeatable=True, may_grow=True, begins_anywhere=True)
    kind = "the topic"

    def __init__(self, table: Topic, request: ScanRequest) -> None:
        self._table = table
        self._request = request

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        table = self._table
        client = consumer(table.client_options)
        try:
            numbers = partitions_of(client, table.topic)
            starts = [_start(client, table, number) for number in numbers]
        finally:
            client.close()
        # One thread may read all of them in turn.
        waiting = WAITING_SECONDS / len(numbers)
        return [
            KafkaPartition(table, self._request.columns, (number, start), (context.clock, waiting))
            for number, start in zip(numbers, starts, strict=True)
        ]

    def split_so_far(self, context: JobContext) -> Sequence[SourcePartition]:
        table = self._table
        client = consumer(table.client_options)
        try:
            numbers = partitions_of(client, table.topic)
            made = [
                KafkaPartition(table, self._request.columns, (item, FIRST), (context.clock, 0))
                for item in numbers
            ]
            for number, partition in zip(numbers, made, strict=True):
                _, high = partition._bounds(client)
                partition.stop_at({"topic": table.topic, "partition": number, "offset": high})
        finally:
            client.close()
        return made


def _start(client: Any, table: Topic, number: int) -> int:
    """The offset at which a partition is read first."""
    partition = kafka().TopicPartition(table.topic, number)
    with calling(f'the offsets of topic "{table.topic}" can\'t be read'):
        low, high = client.get_watermark_offsets(partition, timeout=seconds())
        if "group.id" in table.client_options:
            committed = client.committed([partition], timeout=seconds())[0].offset
            if low <= committed <= high:
                return int(committed)
            if committed >= 0:
                _warn_or_fail(table, (number, committed), (low, high))
    reset = table.client_options.get("auto.offset.reset", "latest").lower()
    if reset not in _STARTS:
        raise ProgrammingError(
            f"wrong value '{reset}' for option \"auto.offset.reset\"",
            hint="it accepts earliest or latest",
        )
    return int(low if _STARTS[reset] else high)


def _warn_or_fail(table: Topic, committed: tuple[int, int], bounds: tuple[int, int]) -> None:
    """Handles a group's committed offset that no longer exists.

    As with Kafka's own clients, 'auto.offset.reset' determines the start then; without that option
    it is an error. `committed` is a partition and an offset in it.
    """
    error = position_expired(
        f'offset {committed[1]} of partition {committed[0]} of topic "{table.topic}", which group '
        f'"{table.client_options["group.id"]}" has committed, no longer exists',
        detail=_offsets(*bounds),
    )
    reset = table.client_options.get("auto.offset.reset")
    if reset is None:
        error.hint = "set where to begin then: 'auto.offset.reset' = 'earliest' or 'latest'"
        raise error
    LOGGER.warning(
        "%s (%s): reading starts by 'auto.offset.reset' at %s",
        error.message,
        error.detail,
        reset,
    )


def _offsets(low: int, high: int) -> str:
    return (
        f"the partition has the offsets {low} to {high - 1}"
        if high > low
        else "the partition has no messages"
    )


class KafkaPartition(SourcePartition):
    """Reads one partition of a topic.

    topic_partition: its number, and the offset to start at.
    waiting: the clock, and how many seconds a read waits.
    """

    def __init__(
        self,
        table: Topic,
        columns: tuple[int, ...],
        topic_partition: tuple[int, int],
        waiting: tuple[Callable[[], int], float],
    ) -> None:
        self._table = table
        self._columns = columns
        self._number, self._offset = topic_partition
        self.identity = f"{table.topic}/{self._number}"
        self._clock, self._seconds = waiting
        self._malformed = Malformed(table.on_error, f'topic "{table.topic}"')
        self._client: Any = None
        self._time: int | None = None
        self._is_checking = False
        self._last: int | None = None
        self._is_over = False

    def read(self) -> pa.RecordBatch | Pause | End:
        if self._is_over or (self._last is not None and self._offset >= self._last):
            return END
        if self._client is None:
            self._connect()
        first = self._client.poll(self._seconds if self._last is None else WAITING_SECONDS)
        if first is None:
            return Pause(self._clock())
        messages = [first, *self._client.consume(MOST_MESSAGES - 1, 0)]
        sound = []
        for message in self._checked(messages) if self._is_checking else messages:
            error = message.error()
            if error is None:
                if self._last is not None and message.offset() >= self._last:
                    self._is_over = True
                    break
                sound.append(message)
            elif error.code() == kafka().KafkaError._PARTITION_EOF:
                self._is_over = self._last is not None
            else:
                if not sound:
                    raise self._broken(error)
                # The messages before the error are emitted first; the error occurs again when
                # reading continues.
                self.close()
                break
        if not sound:
            return END if self._is_over else Pause(self._clock())
        batch = self._batch(sound)
        self._offset, self._time = sound[-1].offset() + 1, sound[-1].timestamp()[1]
        self.malformed = self._malformed.count
        self._malformed.log()
        return batch

    def take_malformed(self) -> Sequence[MalformedRecord]:
        return self._malformed.take()

    def position(self) -> Token | None:
        """The position, with the time of the message before it, which distinguishes a topic that
        was created again from the one that was read."""
        return {
            "topic": self._table.topic,
            "partition": self._number,
            "offset": self._offset,
            "time": self._time,
        }

    def seek(self, token: Token) -> None:
        if (token["topic"], token["partition"]) != (self._table.topic, self._number):
            raise OperationalError(
                f'partition {self._number} of topic "{self._table.topic}" can\'t resume from a '
                "position in partition "
                f'{token["partition"]} of topic "{token["topic"]}"'
            )
        self._offset, self._time = token["offset"], token.get("time")

    def stop_at(self, token: Token) -> None:
        self._last = token["offset"]

    def skip_to(self, choice: ExpiredPosition) -> Skipped:
        was, was_recreated = self._offset, self._is_checking
        self.close()
        client = consumer(self._table.client_options)
        try:
            low, high = self._bounds(client)
        finally:
            client.close()
        self._offset, self._time = int(low if choice is ExpiredPosition.EARLIEST else high), None
        is_known = not was_recreated and was <= self._offset
        return Skipped(f"offset {self._offset}", self._offset - was if is_known else None)

    def begin_anew(self) -> None:
        self._offset = FIRST

    def close(self) -> None:
        client, self._client = self._client, None
        self._is_checking = False
        if client is not None:
            client.close()

    def _connect(self) -> None:
        """Starts reading at the offset, after a check that it still exists."""
        topic = self._table.topic
        options = self._table.client_options
        if self._last is not None:
            # Messages before the last position may be deleted, or never have been visible to
            # readers: then the partition's end is reported instead.
            options = {**options, "enable.partition.eof": "true"}
        client = self._client = consumer(options)
        low, high = self._bounds(client)
        if self._offset == FIRST:
            self._offset = int(low)
        if not low <= self._offset <= high:
            raise self._gap(low, high)
        self._is_checking = self._time is not None and low < self._offset
        with calling(f'topic "{topic}" can\'t be read'):
            client.assign(
                [kafka().TopicPartition(topic, self._number, self._offset - self._is_checking)]
            )

    def _bounds(self, client: Any) -> tuple[int, int]:
        """The first offset, and the offset after the last."""
        with calling(f'topic "{self._table.topic}" can\'t be read'):
            low, high = client.get_watermark_offsets(
                kafka().TopicPartition(self._table.topic, self._number), timeout=seconds()
            )
        return int(low), int(high)

    def _checked(self, messages: list[Any]) -> list[Any]:
        """The messages without the one before the position.

        That message must be the one that was read then, unless compaction has deleted it.
        """
        first = messages[0]
        if first.error() is not None:
            return messages
        if first.offset() == self._offset - 1:
            if first.timestamp()[1] != self._time:
                raise self._gap(*self._bounds(self._client))
            messages = messages[1:]
        self._is_checking = False
        return messages

    def _gap(self, low: int, high: int) -> OperationalError:
        if self._offset < low:
            lost = f"{low - self._offset} messages are gone"
        elif self._offset > high:
            lost = "the topic was created again, or truncated"
        else:
            lost = "the topic was created again: another message is at the last position"
        return position_expired(
            f'offset {self._offset} of partition {self._number} of topic "{self._table.topic}" no '
            "longer exists",
            detail=f"{_offsets(low, high)}: {lost}",
            hint="start the query again, and retain messages for longer than it may be stopped",
        )

    def _broken(self, error: Any) -> OperationalError:
        if error.code() == kafka().KafkaError._AUTO_OFFSET_RESET:
            return self._gap(*self._bounds(self._client))
        return failed(
            f'partition {self._number} of topic "{self._table.topic}" can\'t be read', error
        )

    def _batch(self, found: list[Any]) -> pa.RecordBatch:
        """The messages as rows of the requested columns."""
        table, count = self._table, len(found)
        messages = Messages(count, lambda index: self._location_of(found[index]), self._malformed)
        arrays: dict[int, pa.Array] = {}
        for side, positions, payloads in (
            (table.key_side, table.key_indexes, lambda: [message.key() for message in found]),
            (table.value_side, table.value_indexes, lambda: [message.value() for message in found]),
        ):
            arrays.update(self._decoded(side, positions, payloads, messages))
        for name, position in table.metadata.items():
            if position in self._columns:
                arrays[position] = _metadata(name, found)
        if not self._columns:
            return empty_columns(count)
        names = [table.columns[position].name for position in self._columns]
        batch = pa.RecordBatch.from_arrays(
            [arrays[position] for position in self._columns], names=names
        )
        return all_sound(messages, batch)

    def _decoded(
        self,
        side: PayloadCodec | None,
        positions: Sequence[int],
        payloads: Callable[[], list[bytes | None]],
        messages: Messages,
    ) -> dict[int, pa.Array]:
        table = self._table
        # A value that repeats the key has no columns of its own for it.
        repeated = table.key_indexes if side is table.value_side else ()
        requested = [
            index
            for index, position in enumerate(positions)
            if position in self._columns and position not in repeated
        ]
        if side is None or not requested:
            return {}
        decoded = side.decode(payloads(), requested, messages)
        return {positions[index]: array for index, array in zip(requested, decoded, strict=True)}

    def _location_of(self, message: Any) -> str:
        return f'topic "{self._table.topic}", partition {self._number}, offset {message.offset()}'


def _metadata(name: str, messages: Sequence[Any]) -> pa.Array:
    if name == TOMBSTONE:
        return from_flags(np.array([message.value() is None for message in messages], np.bool_))
    if name == "__partition":
        return from_numbers(np.full(len(messages), messages[0].partition(), np.int32), pa.int32())
    if name == "__offset":
        return from_numbers(
            np.array([message.offset() for message in messages], np.int64), pa.int64()
        )
    stamps = [message.timestamp() for message in messages]
    known = np.array([kind != 0 for kind, _ in stamps], np.bool_)
    times = np.array([milliseconds for _, milliseconds in stamps], np.int64) * 1000
    return from_numbers(times, to_arrow(TIMESTAMP_TZ), None if known.all() else known)
