"""Outboxes: how what a processor offers gets into the queues of its output edges.

An outbox remembers what of a refused item was accepted already, so the processor offers the same
item until all of it is through. With `only_owed` it accepts the rest of such an item and nothing
after it. `offered` and `refused` tell the tasklet what a call led to; it resets them before each.
Rows are counted when a batch is accepted as a whole, bytes only with `is_measured`, since finding
them out costs as much as passing a small batch on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from runnel.columns.key_hash import partition
from runnel.dag import Routing
from runnel.errors import OperationalError
from runnel.processor import DONE, Item, LatencyMarker, ResultTarget
from runnel.runtime.edges.queues import Queue

SnapshotTarget = Callable[[pa.RecordBatch], bool]
RecordBatch = pa.RecordBatch


class BaseOutbox:
    """What all outboxes have in common; it serves a processor without outputs as it is."""

    __slots__ = (
        "batches",
        "bytes",
        "is_measured",
        "offered",
        "only_owed",
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
        """Before a control item of the runtime's own: what was refused as a whole comes after
        it."""
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
        """A refused item must be the next to be offered."""
        if self.owed is not None and (ordinal != self.owed[1] or not _same(item, self.owed[0])):
            raise OperationalError(
                "another item was offered than the one that was refused",
                hint="after outbox.offer gave False, offer the same item again first",
            )


class ResultOutbox(BaseOutbox):
    """What is offered goes to the job's results, without a queue and a sink between. The results
    wake the tasklet when there is room. Control items end here."""

    __slots__ = ("_results",)

    def __init__(self, results: ResultTarget) -> None:
        super().__init__()
        self._results = results

    def offer(self, item: Item, ordinal: int = -1) -> bool:
        if ordinal > 0:
            raise no_such_output(ordinal, 1)
        if item.__class__ is not RecordBatch:
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
        return True

    def finish(self) -> None:
        self._queue.finish(DONE)

    @property
    def queues(self) -> Sequence[Queue]:
        return (self._queue,)


class FanOutbox(BaseOutbox):
    """Several outputs, or several queues of one output."""

    __slots__ = ("_is_begun", "_outputs", "_waiting")

    def __init__(self, outputs: Sequence[Output]) -> None:
        super().__init__()
        self._outputs = outputs
        self._is_begun = False
        self._waiting: list[Output] = []

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
        return True

    @property
    def is_partial(self) -> bool:  # type: ignore[override]
        return self.owed is not None and self._is_begun

    def _push(self, output: Output) -> bool:
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


class Output:
    """The queues of one output edge, and the parts of the current item that aren't in them yet."""

    __slots__ = ("_keys", "_next", "_parts", "_routing", "queues")

    def __init__(self, routing: Routing, keys: tuple[str, ...], queues: Sequence[Queue]) -> None:
        self.queues = queues
        self._routing = routing
        self._keys = keys
        self._next = 0
        self._parts: list[tuple[Queue | None, Item]] = []

    @property
    def left(self) -> int:
        """How many parts of the current item have no place yet."""
        return len(self._parts)

    def begin(self, item: Item, is_batch: bool) -> None:
        """Divides an item into parts, each for one queue; None is any queue. Of the control items
        only a LatencyMarker goes one way: it stands for a row."""
        goes_anywhere = (
            self._routing is Routing.UNICAST if is_batch else item.__class__ is LatencyMarker
        )
        if goes_anywhere and len(self.queues) > 1:
            self._parts = [(None, item)]
        elif is_batch and self._routing is Routing.PARTITIONED and len(self.queues) > 1:
            pieces = partition(item, self._key_columns(item), len(self.queues))
            self._parts = [
                (q, piece) for q, piece in zip(self.queues, pieces, strict=True) if piece.num_rows
            ]
        else:
            self._parts = [(queue, item) for queue in self.queues]

    def push(self) -> bool:
        """Puts what it can into the queues; whether nothing is left."""
        self._parts = [(queue, item) for queue, item in self._parts if not self._place(queue, item)]
        return not self._parts

    def _place(self, queue: Queue | None, item: Item) -> bool:
        if queue is not None:
            return queue.offer(item)
        count = len(self.queues)
        for step in range(count):
            index = (self._next + step) % count
            if self.queues[index].offer(item):
                self._next = (index + 1) % count
                return True
        return False

    def _key_columns(self, item: Item) -> list[int]:
        names = item.schema.names  # type: ignore[union-attr]
        try:
            return [names.index(key) for key in self._keys]
        except ValueError:
            missing = next(key for key in self._keys if key not in names)
            raise OperationalError(
                f'the batch for a partitioned edge has no key column "{missing}"',
                detail="its columns are " + ", ".join(f'"{name}"' for name in names),
            ) from None


def no_such_output(ordinal: int, count: int) -> OperationalError:
    return OperationalError(f"there is no output {ordinal}: the vertex has {count}")


def _same(item: Item, other: Item) -> bool:
    """A batch made anew with the same rows will do; comparing them is rare."""
    return item is other or (item.__class__ is other.__class__ and bool(item == other))


def make_outbox(outputs: Sequence[tuple[Routing, tuple[str, ...], Sequence[Queue]]]) -> BaseOutbox:
    """The simplest outbox for output edges, each given by routing, key columns and queues."""
    if not outputs:
        return BaseOutbox()
    if len(outputs) == 1 and len(outputs[0][2]) == 1:
        return SingleOutbox(outputs[0][2][0])
    return FanOutbox([Output(*output) for output in outputs])
