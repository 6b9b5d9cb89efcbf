"""Queues between tasklets: bounded, one producer, one consumer, no lock.

A queue is a deque, whose append and popleft are atomic. With a single producer the number of items
can only shrink behind its back, so "not full" stays true until it appends; with a single consumer
the head stays the head until it is taken.

The end of a queue (DONE) always has a place, so that a tasklet can end without waiting for room.
"""

from __future__ import annotations

from collections import deque

import pyarrow as pa

from runnel.processor import Item
from runnel.runtime.tasklets.tasklet import Tasklet


class Queue:
    """A queue of `capacity` places from the tasklet `producer` to the tasklet `consumer`.

    `wanted`: the producer was refused and waits for room. It sets this and then looks for room once
    more; the consumer takes items and then looks at `wanted`. So either the producer sees the room
    or the consumer sees that it is wanted.
    """

    __slots__ = ("capacity", "consumer", "items", "producer", "wanted")

    producer: Tasklet
    consumer: Tasklet

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.items: deque[Item] = deque()
        self.wanted = False

    def offer(self, item: Item) -> bool:
        """Appends an item and wakes the consumer; False if there is no room."""
        items = self.items
        if len(items) >= self.capacity:
            self.wanted = True
            if len(items) >= self.capacity:
                return False
            self.wanted = False
        items.append(item)
        consumer = self.consumer
        consumer.signalled = True
        if consumer.parking:
            consumer.unpark()
        return True

    def finish(self, done: Item) -> None:
        """Appends the end, room or not."""
        self.items.append(done)
        self.consumer.wake()

    def abandon(self) -> None:
        """The consumer wants nothing more: from now on the queue takes everything and keeps
        nothing. A producer all of whose consumers did this has nobody to work for."""
        self.items = _Discarding()
        self.producer.abandon_if_unwanted()

    @property
    def is_abandoned(self) -> bool:
        return self.items.__class__ is _Discarding

    def made_room(self) -> None:
        """To be called by the consumer when it took items: wakes the producer if it waits for
        room."""
        if self.wanted:
            self.wanted = False
            self.producer.wake()

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        ends = f"{name_of(self, 'producer')} → {name_of(self, 'consumer')}"
        return f"<queue {ends} {len(self.items)}/{self.capacity}{' wanted' if self.wanted else ''}>"


def name_of(queue: Queue, side: str) -> str:
    tasklet = getattr(queue, side, None)
    return getattr(tasklet, "name", "?")


class _Discarding(deque[Item]):
    """What stands in for the items of an abandoned queue."""

    def append(self, item: Item) -> None:
        pass


class BatchInbox(deque[pa.RecordBatch]):
    """The batches that a processor is given to process."""

    def peek(self) -> pa.RecordBatch | None:
        return self[0] if self else None

    def poll(self) -> pa.RecordBatch | None:
        return self.popleft() if self else None
