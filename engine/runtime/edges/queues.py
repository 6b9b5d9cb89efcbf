"""Queues between tasklets: bounded, one producer, one consumer, no lock.

A queue is a deque, whose append and popleft are atomic. With a single producer, "not full" stays
true until the producer appends, since meanwhile the queue can only shrink; with a single consumer,
the head stays the head until the consumer removes it.

The end of a queue (DONE) is appended even to a full queue, so that a tasklet can end without
waiting.
"""

from __future__ import annotations

from collections import deque

import pyarrow as pa

from runnel.processor import Item
from runnel.runtime.tasklets.tasklet import Tasklet


class Queue:
    """A queue from the tasklet `producer` to the tasklet `consumer`.

    capacity: maximum number of items.
    items: the items, oldest first.
    has_waiting_producer: an item was refused, and the producer waits for room.

    The producer sets `has_waiting_producer` and then checks for room again; the consumer removes
    items and then checks `has_waiting_producer`. So either the producer finds the room, or the
    consumer wakes the producer.
    """

    __slots__ = ("capacity", "consumer", "has_waiting_producer", "items", "producer")

    producer: Tasklet
    consumer: Tasklet

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.items: deque[Item] = deque()
        self.has_waiting_producer = False

    def offer(self, item: Item) -> bool:
        """Appends an item and wakes the consumer; False if there is no room."""
        items = self.items
        if len(items) >= self.capacity:
            self.has_waiting_producer = True
            if len(items) >= self.capacity:
                return False
            self.has_waiting_producer = False
        items.append(item)
        consumer = self.consumer
        consumer.signalled = True
        if consumer.parking:
            consumer.unpark()
        return True

    def finish(self, done: Item) -> None:
        """Appends the end, even if the queue is full."""
        self.items.append(done)
        self.consumer.wake()

    def abandon(self) -> None:
        """The consumer needs no more items: from now on the queue accepts and discards everything.
        A producer all of whose consumers did this may end."""
        self.items = _Discarding()
        self.producer.abandon_if_unwanted()

    @property
    def is_abandoned(self) -> bool:
        return self.items.__class__ is _Discarding

    def made_room(self) -> None:
        """To be called by the consumer after it removed items: wakes the producer if it waits for
        room."""
        if self.has_waiting_producer:
            self.has_waiting_producer = False
            self.producer.wake()

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        ends = f"{name_of(self, 'producer')} → {name_of(self, 'consumer')}"
        waiting = " producer waits" if self.has_waiting_producer else ""
        return f"<queue {ends} {len(self.items)}/{self.capacity}{waiting}>"


def name_of(queue: Queue, side: str) -> str:
    tasklet = getattr(queue, side, None)
    return getattr(tasklet, "name", "?")


class _Discarding(deque[Item]):
    """The items of an abandoned queue: always empty."""

    def append(self, item: Item) -> None:
        pass


class BatchInbox(deque[pa.RecordBatch]):
    """The batches that are passed to a processor."""

    def peek(self) -> pa.RecordBatch | None:
        return self[0] if self else None

    def poll(self) -> pa.RecordBatch | None:
        return self.popleft() if self else None
