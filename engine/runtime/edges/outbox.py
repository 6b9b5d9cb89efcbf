"""Outboxes: they put the items that a processor offers into the queues of its output edges.

If an item is refused, an outbox remembers which queues have accepted it, so the processor offers
the same item until all have. With `only_owed` it accepts the rest of such an item and no other
item. `offered` and `refused` inform the tasklet of the effects of a call; the tasklet resets them
before each call. Rows are counted when a batch is accepted as a whole, bytes only with
`is_measured`, since computing them costs as much as passing on a small batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from runnel.columns.key_hash import Partitioning
from runnel.dag import Routing
from runnel.errors import ErrorCode, OperationalError
from runnel.processor import (
    DONE,
    Active,
    Barrier,
    Epoch,
    Idle,
    Item,
    LatencyMarker,
    ResultTarget,
    Watermark,
)
from runnel.runtime.edges.queues import Queue

SnapshotTarget = Callable[[pa.RecordBatch], bool]
RecordBatch = pa.RecordBatch

_CONTROL = (Active, Barrier, Epoch, Idle, LatencyMarker)
"""The classes of control items that the outbox accepts, except watermarks: the end is `finish`."""


class WatermarkOrder:
    """Checks that a processor sends only items, and that its watermarks increase, for each of its
    outputs.

    vertex: the name of the vertex, for the error.
    outputs: the number of outputs.
    """

    __slots__ = ("_last", "_vertex")

    def __init__(self, vertex: str, outputs: int) -> None:
        self._vertex = vertex
        self._last: list[dict[int, int]] = [{} for _ in range(outputs)]

    def _of(self, ordinal: int) -> Sequence[dict[int, int]]:
        return self._last if ordinal < 0 else self._last[ordinal : ordinal + 1]

    def check(self, item: Item, ordinal: int) -> None:
        """Raises if the item is no batch and no control item, or a watermark that is not above the
        last one of its output and its column."""
        if not isinstance(item, Watermark):
            if not isinstance(item, _CONTROL):
                raise OperationalError(
                    f'vertex "{self._vertex}" sent a value of class {type(item).__name__}, '
                    "which is no item of an edge",
                    code=ErrorCode.GENERIC,
                    hint=(
                        "send record batches and watermarks; Table.to_batches() returns the "
                        "batches of an Arrow table"
                    ),
                )
            return
        for last in self._of(ordinal):
            before = last.get(item.column)
            if before is not None and item.time <= before:
                raise OperationalError(
                    f'vertex "{self._vertex}" sent watermark {item.time} after watermark {before}'
                    + (f" of column {item.column}" if item.column else ""),
                    code=ErrorCode.GENERIC,
                    hint=(
                        "the watermarks of a processor must increase: send one only if it is "
                        "above the last one"
                    ),
                )

    def accepted(self, item: Item, ordinal: int) -> None:
        """The queues have accepted the item."""
        if isinstance(item, Watermark):
            for last in self._of(ordinal):
                last[item.column] = item.time


class BaseOutbox:
    """Base class of outboxes, and the outbox of a processor without outputs.

    batches, rows, bytes: accepted so far.
    is_measured: bytes are counted.
    offered: an item was accepted, or partly accepted, since it was reset.
    refused: an item was refused since it was reset.
    only_owed: accepts only the rest of a refused item.
    owed: the refused item and its ordinal; None: there is none.
    snapshot_target: receives state during `save_snapshot`.
    order: checks the items of a processor that may be the user's; None: not checked.
    """

    __slots__ = (
        "batches",
        "bytes",
        "is_measured",
        "offered",
        "only_owed",
        "order",
        "owed",
        "refused",
        "rows",
        "snapshot_target",
    )

    is_partial = False
    """Whether some of the queues have accepted the item that was refused, and others have not."""

    def __init__(self) -> None:
        self.only_owed = False
        self.offered = False
        self.refused = False
        self.batches = 0
        self.rows = 0
        self.bytes = 0
        self.is_measured = False
        self.owed: tuple[Item, int] | None = None
        self.snapshot_target: SnapshotTarget | None = None
        self.order: WatermarkOrder | None = None

    def offer(self, item: Item, ordinal: int = -1) -> bool:
        if ordinal >= 0:
            raise no_such_output(ordinal, 0)
        self.offered = True
        return True

    def offer_snapshot(self, batch: pa.RecordBatch) -> bool:
        if self.snapshot_target is None:
            raise OperationalError(
                "offer_snapshot was called outside save_snapshot", hint="offer state only there"
            )
        if self.snapshot_target(batch):
            self.offered = True
            return True
        self.refused = True
        return False

    def forget_owed(self) -> None:
        """Called before the runtime offers a control item. An item that was refused by all queues
        then comes after it."""
        if self.is_partial:
            raise OperationalError(
                "a processor kept back an item that some of its outputs have already",
                hint=(
                    "in save_snapshot and flush, return False until the outbox has accepted what "
                    "it refused"
                ),
            )
        self.owed = None
        self.only_owed = False

    def finish(self) -> None:
        """Appends the end to every queue."""

    @property
    def queues(self) -> Sequence[Queue]:
        return ()

    def check_owed(self, item: Item, ordinal: int) -> None:
        """Raises unless the item is the refused one, which must be offered first."""
        if self.owed is not None and (ordinal != self.owed[1] or not _same(item, self.owed[0])):
            raise OperationalError(
                "another item was offered than the one that was refused",
                hint="after outbox.offer returned False, offer the same item again first",
            )


class ResultOutbox(BaseOutbox):
    """Writes batches directly to the job's results, without a queue and a sink in between. The
    results wake the tasklet when there is room. Other control items than ends of epochs are
    discarded."""

    __slots__ = ("_results",)

    def __init__(self, results: ResultTarget) -> None:
        super().__init__()
        self._results = results

    def offer(self, item: Item, ordinal: int = -1) -> bool:
        if ordinal > 0:
            raise no_such_output(ordinal, 1)
        if item.__class__ is not RecordBatch:
            if item.__class__ is Epoch:
                self._results.end_epoch(item)
            self.offered = True
            return True
        rows = item.num_rows  # type: ignore[union-attr]
        if rows == 0:
            return True
        if self.owed is not None:
            self.check_owed(item, 0)
        if not self._results.offer(item):
            self.owed = (item, 0)
            self.refused = True
            return False
        self.owed = None
        self.offered = True
        self.batches += 1
        self.rows += rows
        if self.is_measured:
            self.bytes += item.nbytes  # type: ignore[union-attr]
        return True


class SingleOutbox(BaseOutbox):
    """One output with one queue: the most frequent case, and the fastest."""

    __slots__ = ("_queue",)

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self._queue = queue

    def offer(self, item: Item, ordinal: int = -1) -> bool:
        if ordinal > 0:
            raise no_such_output(ordinal, 1)
        rows = item.num_rows if item.__class__ is RecordBatch else -1  # type: ignore[union-attr]
        if rows == 0:
            return True
        if self.owed is not None:
            self.check_owed(item, 0)
        if rows < 0 and self.order is not None:
            self.order.check(item, 0)
        if not self._queue.offer(item):
            self.owed = (item, 0)
            self.refused = True
            return False
        self.owed = None
        self.offered = True
        if rows > 0:
            self.batches += 1
            self.rows += rows
            if self.is_measured:
                self.bytes += item.nbytes  # type: ignore[union-attr]
        elif self.order is not None:
            self.order.accepted(item, 0)
        return True

    def finish(self) -> None:
        self._queue.finish(DONE)

    @property
    def queues(self) -> Sequence[Queue]:
        return (self._queue,)


class FanOutbox(BaseOutbox):
    """Several outputs, or several queues of one output."""

    __slots__ = ("_is_begun", "_outputs", "_waiting")

    def __init__(self, outputs: Sequence[OutputEdge]) -> None:
        super().__init__()
        self._outputs = outputs
        self._is_begun = False
        self._waiting: list[OutputEdge] = []

    def offer(self, item: Item, ordinal: int = -1) -> bool:
        if ordinal >= len(self._outputs):
            raise no_such_output(ordinal, len(self._outputs))
        rows = item.num_rows if item.__class__ is RecordBatch else -1  # type: ignore[union-attr]
        if rows == 0:
            return True
        if self.owed is None:
            if self.only_owed:
                self.refused = True
                return False
            if rows < 0 and self.order is not None:
                self.order.check(item, ordinal)
            self._waiting = list(self._outputs) if ordinal < 0 else [self._outputs[ordinal]]
            self._is_begun = False
            for output in self._waiting:
                output.begin(item, rows >= 0)
        else:
            self.check_owed(item, ordinal)
        self._waiting = [output for output in self._waiting if not self._push(output)]
        if self._waiting:
            self.owed = (item, ordinal)
            self.refused = True
            return False
        self.owed = None
        if rows > 0:
            self.batches += 1
            self.rows += rows
            if self.is_measured:
                self.bytes += item.nbytes  # type: ignore[union-attr]
        elif self.order is not None:
            self.order.accepted(item, ordinal)
        return True

    @property
    def is_partial(self) -> bool:  # type: ignore[override]
        return self.owed is not None and self._is_begun

    def _push(self, output: OutputEdge) -> bool:
        left = output.left
        through = output.push()
        if through or output.left < left:
            self.offered = True
            self._is_begun = True
        return through

    def finish(self) -> None:
        for output in self._outputs:
            for queue in output.queues:
                queue.finish(DONE)

    @property
    def queues(self) -> Sequence[Queue]:
        return [queue for output in self._outputs for queue in output.queues]


class OutputEdge:
    """The queues of one output edge, and the chunks of the current item that no queue has accepted.

    For example, a batch with the keys 1, 2, 3 on a PARTITIONED edge to two processors: `begin` sets
    `_pending` to [(queue 0, row of 2), (queue 1, rows of 1 and 3)], by the hashes of the keys. If
    queue 1 is full, `push` leaves [(queue 1, rows of 1 and 3)].
    """

    __slots__ = ("_next", "_partitioning", "_pending", "_routing", "queues")

    def __init__(
        self, routing: Routing, partitioning: Partitioning, queues: Sequence[Queue]
    ) -> None:
        self.queues = queues
        self._routing = routing
        self._partitioning = partitioning
        self._next = 0
        self._pending: list[tuple[Queue | None, Item]] = []

    @property
    def left(self) -> int:
        """Number of pending chunks of the current item."""
        return len(self._pending)

    def begin(self, item: Item, is_batch: bool) -> None:
        """Divides an item into chunks, each for one queue; None stands for any queue. Of the
        control items only a LatencyMarker goes to a single queue: it represents a row."""
        goes_anywhere = (
            self._routing is Routing.UNICAST if is_batch else item.__class__ is LatencyMarker
        )
        if goes_anywhere and len(self.queues) > 1:
            self._pending = [(None, item)]
        elif is_batch and self._routing is Routing.PARTITIONED and len(self.queues) > 1:
            chunks = self._partitioning.divided(item, len(self.queues))
            self._pending = [
                (q, chunk) for q, chunk in zip(self.queues, chunks, strict=True) if chunk.num_rows
            ]
        else:
            self._pending = [(queue, item) for queue in self.queues]

    def push(self) -> bool:
        """Appends as many chunks as possible to the queues; returns whether none is left."""
        self._pending = [
            (queue, item) for queue, item in self._pending if not self._enqueue(queue, item)
        ]
        return not self._pending

    def _enqueue(self, queue: Queue | None, item: Item) -> bool:
        if queue is not None:
            return queue.offer(item)
        count = len(self.queues)
        for step in range(count):
            index = (self._next + step) % count
            if self.queues[index].offer(item):
                self._next = (index + 1) % count
                return True
        return False


def no_such_output(ordinal: int, count: int) -> OperationalError:
    return OperationalError(f"there is no output {ordinal}: the vertex has {count}")


def _same(item: Item, other: Item) -> bool:
    """Whether two items are equal: a processor may create the batch again. Comparing content is
    rare."""
    return item is other or (item.__class__ is other.__class__ and bool(item == other))


def make_outbox(
    outputs: Sequence[tuple[Routing, Partitioning, Sequence[Queue]]],
) -> BaseOutbox:
    """The simplest outbox for output edges, each described by routing, partitioning and queues."""
    if not outputs:
        return BaseOutbox()
    if len(outputs) == 1 and len(outputs[0][2]) == 1:
        return SingleOutbox(outputs[0][2][0])
    return FanOutbox([OutputEdge(*output) for output in outputs])
