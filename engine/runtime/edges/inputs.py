"""Inputs: taking items from the queues of an edge in the right order, and turning control items
into events.

Batches are taken in the order of their queue. A control item stays at the head of its queue until
the batches before it were processed; then it is removed, and becomes an event if it has an effect:
a watermark that holds for all queues of all edges, a barrier that has arrived in all queues, the
end of an edge.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import pyarrow as pa

from runnel.errors import internal
from runnel.processor import DONE, Active, Barrier, Epoch, Idle, Item, LatencyMarker, Watermark
from runnel.runtime.edges.queues import BatchInbox, Queue, name_of
from runnel.watermarks import WatermarkCoalescer

RecordBatch = pa.RecordBatch


class InputEdge:
    """One input of a processor: an edge with a queue from each upstream processor that is connected
    to this one.

    ordinal: number of the input.
    priority: inputs with a smaller priority are read to their end first.
    queues: all queues.
    live: queues that have not ended.
    blocked: queues in which the current barrier, or end of an epoch, has arrived.
    coalescer: coalesces the watermarks of the queues; None before the first one.
    rows, batches: received so far.
    watermark_numbers: new number of each watermark that passes; None: all pass unchanged.
    """

    __slots__ = (
        "_next",
        "barrier",
        "batches",
        "blocked",
        "capacity",
        "coalescer",
        "live",
        "ordinal",
        "priority",
        "queues",
        "rows",
        "watermark_numbers",
    )

    def __init__(
        self,
        ordinal: int,
        priority: int,
        queues: Sequence[Queue],
        watermarks: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        self.watermark_numbers = None if watermarks is None else dict(watermarks)
        self.ordinal = ordinal
        self.priority = priority
        self.queues = queues
        self.live = list(queues)
        self.blocked: set[Queue] = set()
        self.coalescer: WatermarkCoalescer | None = None
        self.rows = 0
        self.batches = 0
        self._next = 0

    @property
    def is_done(self) -> bool:
        return not self.live

    def fill(self, inbox: BatchInbox, turn_away: bool) -> Queue | None:
        """Moves the batches of the next queue that has any into the inbox; the queues take turns.
        If a control item is at the head of that queue, returns the queue instead; if all queues are
        empty, returns None with an empty inbox.

        Queues in which the current barrier or end of an epoch has arrived are skipped if
        `turn_away`: always for an epoch, for a barrier if it is aligned (exactly-once).
        """
        live = self.live
        if len(live) == 1:
            return None if turn_away and live[0] in self.blocked else self._drain(live[0], inbox)
        start = self._next
        for step in range(len(live)):
            queue = live[(start + step) % len(live)]
            if queue.items and not (turn_away and queue in self.blocked):
                self._next = start + step + 1
                return self._drain(queue, inbox)
        return None

    def _drain(self, queue: Queue, inbox: BatchInbox) -> Queue | None:
        items = queue.items
        taken = 0
        while items:
            if items[0].__class__ is not RecordBatch:
                break
            batch = items.popleft()
            inbox.append(batch)
            self.rows += batch.num_rows  # type: ignore[union-attr]
            taken += 1
        if taken:
            self.batches += taken
            queue.made_room()
            if self.coalescer is not None:
                self.coalescer.active(self.queues.index(queue))
            return None
        return queue if items else None

    def may_bring(self, number: int) -> bool:
        """Whether watermarks with this number may come: not if others are declared."""
        return self.watermark_numbers is None or number in self.watermark_numbers.values()

    def number_upstream(self, number: int) -> int:
        """The number before this edge of a watermark that has `number` after it."""
        renamed = {} if self.watermark_numbers is None else self.watermark_numbers
        return next((before for before, after in renamed.items() if after == number), number)

    def watermarks(self) -> WatermarkCoalescer:
        if self.coalescer is None:
            self.coalescer = WatermarkCoalescer(len(self.queues), f"edge {self.ordinal}")
            for index, queue in enumerate(self.queues):
                if queue not in self.live:
                    self.coalescer.done(index)
        return self.coalescer


class Inputs:
    """All inputs of one processor. `next_event` returns the next event to handle."""

    __slots__ = (
        "_edges",
        "_events",
        "_group",
        "_later",
        "aligned",
        "barrier",
        "coalescer",
        "fell_idle",
        "idle",
        "inbox",
        "name",
        "ordinal",
    )

    def __init__(self, edges: Sequence[InputEdge], name: str) -> None:
        self._edges = edges
        self.name = name
        self.inbox = BatchInbox()
        self.ordinal = 0
        self.aligned = True
        self.barrier: Barrier | Epoch | None = None
        self.coalescer: WatermarkCoalescer | None = None
        self.idle: set[int] = set()
        """If there are several inputs: the ordinals of the idle ones."""
        self.fell_idle = False
        """Set when an input has become idle, since the processor may be waiting for that one."""
        self._events: deque[Item | InputEdge] = deque()
        self._group: list[InputEdge] = []
        self._later: list[InputEdge] = []
        if len(edges) > 1:
            self._later = sorted(edges, key=lambda edge: edge.priority)
            self._next_group()
        else:
            self._group.extend(edges)
        # An isolated edge may connect this processor to no upstream one at all.
        for edge in edges:
            if not edge.queues:
                self._end_edge(edge)

    @property
    def edges(self) -> Sequence[InputEdge]:
        return self._edges

    @property
    def are_done(self) -> bool:
        """Whether every input ended and all events were handled."""
        return not self._group and not self._events

    @property
    def has_watermarks(self) -> bool:
        """Whether a watermark or an idleness has arrived. From any thread."""
        return any(edge.coalescer is not None for edge in self._edges)

    def least_watermark(self) -> int | None:
        """The smallest watermark that has arrived for the whole processor, among the columns that
        have watermarks; None if one of them has none yet. From any thread."""
        coalescer = self.coalescer or (self._edges[0].coalescer if len(self._edges) == 1 else None)
        return None if coalescer is None else coalescer.emitted(coalescer.least_column())

    def holder(self, column: int | None = None) -> tuple[InputEdge, Queue | None, int] | None:
        """The input and the queue in it that hold back a watermark, and the number of the
        watermark; None if nothing does. Without a queue, nothing has come from the input yet. From
        any thread.

        column: the number of the watermark; None, or one that no input brings: the smallest.
        """
        edges = list(self._edges)
        own = [] if self.coalescer is None else [self.coalescer]
        coalescers = own + [edge.coalescer for edge in edges if edge.coalescer is not None]
        if column is None or not any(item.knows(column) for item in coalescers):
            column = next((item.least_column() for item in coalescers), 0)
        if self.coalescer is not None:
            holder = self.coalescer.watermark_holder(column)
            edges = [edge for edge in edges if edge.ordinal == holder]
        silent: InputEdge | None = None
        for edge in edges:
            if edge.coalescer is None:
                silent = silent or (edge if edge.live and edge.may_bring(column) else None)
                continue
            queue = edge.coalescer.watermark_holder(column)
            if queue is not None:
                return edge, edge.queues[queue], column
        return None if silent is None else (silent, None, column)

    def watermark_holder(self) -> str | None:
        """The input, and the queue in it, that holds back the smallest watermark; None if there are
        no watermarks."""
        found = self.holder() if self.has_watermarks else None
        if found is None:
            return None
        edge, queue, _ = found
        return f"input {edge.ordinal}" + (
            "" if queue is None else f", from {name_of(queue, 'producer')}"
        )

    def next_event(self) -> Item | InputEdge | None:
        """The next event: a Watermark, a Barrier, an Epoch, a LatencyMarker or an Idle for the
        whole processor, an Active for one input, or an InputEdge that ended. None if there is none;
        then the inbox may contain batches of input `ordinal`."""
        while True:
            if self._events:
                return self._events.popleft()
            edge, queue = self._first_with_news()
            if edge is None:
                return None
            if queue is None:
                self.ordinal = edge.ordinal
                self._is_active(edge)
                return None
            self._take(edge, queue)

    def _first_with_news(self) -> tuple[InputEdge | None, Queue | None]:
        """The first edge of the current priority that has batches, which are moved to the inbox, or
        a control item, returned with its queue. Next time the remaining edges are checked first."""
        barrier = self.barrier
        turn_away = barrier is not None and (self.aligned or barrier.__class__ is Epoch)
        group = self._group
        for position, edge in enumerate(group):
            queue = edge.fill(self.inbox, turn_away)
            if queue is not None or self.inbox:
                if len(group) > 1:
                    group.append(group.pop(position))
                return edge, queue
        return None, None

    def _take(self, edge: InputEdge, queue: Queue) -> None:
        item = queue.items.popleft()
        queue.made_room()
        if item is DONE:
            self._end_queue(edge, queue)
        elif isinstance(item, Watermark):
            numbers = edge.watermark_numbers
            if numbers is not None:
                number = numbers.get(item.column)
                if number is None:
                    return
                item = item if number == item.column else Watermark(item.time, number)
            self._pass_on(edge, edge.watermarks().observe(edge.queues.index(queue), item))
        elif isinstance(item, Idle):
            self._pass_on(edge, edge.watermarks().idle(edge.queues.index(queue), item))
        elif isinstance(item, Active):
            edge.watermarks().active(edge.queues.index(queue))
            self._is_active(edge)
            if item.origin is None or self._resumed(item):
                self._events.append(item)
        elif isinstance(item, LatencyMarker):
            self._events.append(item)
        elif isinstance(item, Barrier | Epoch):
            self._barrier(edge, queue, item)
        else:
            raise internal(f"{item!r} arrived on edge {edge.ordinal} of {self.name}")

    def _is_active(self, edge: InputEdge) -> None:
        if self.coalescer is not None:
            self.coalescer.active(edge.ordinal)
            self.idle.discard(edge.ordinal)

    def _resumed(self, item: Active) -> bool:
        """A source is active again: rows of it that travel through other queues must not be
        overtaken by a watermark. False: that was known."""
        is_news = False
        for edge in self._edges:
            is_news |= edge.watermarks().resumed(item)
        if self.coalescer is not None:
            self.coalescer.resumed(item)
            self._forget_resumed(self.coalescer)
        return is_news

    def _forget_resumed(self, coalescer: WatermarkCoalescer) -> None:
        """Inputs of which a source is active again are not idle."""
        if self.idle:
            self.idle.difference_update([n for n in self.idle if not coalescer.is_idle(n)])

    def _end_queue(self, edge: InputEdge, queue: Queue) -> None:
        edge.live.remove(queue)
        edge.blocked.discard(queue)
        if not edge.live:
            self._end_edge(edge)
        elif edge.coalescer is not None:
            self._pass_on(edge, edge.coalescer.done(edge.queues.index(queue)))
        if self.barrier is not None:
            self._check_alignment()

    def _end_edge(self, edge: InputEdge) -> None:
        if edge in self._group:
            self._group.remove(edge)
        else:
            self._later.remove(edge)
        self._events.append(edge)
        if self.coalescer is not None:
            self._events.extend(self.coalescer.done(edge.ordinal))
        if not self._group:
            self._next_group()

    def _next_group(self) -> None:
        later = self._later
        while later and (not self._group or later[0].priority == self._group[0].priority):
            self._group.append(later.pop(0))

    def _pass_on(self, edge: InputEdge, items: Sequence[Watermark | Idle]) -> None:
        """Coalesces the watermarks and idleness of one edge with the other edges."""
        if len(self._edges) == 1:
            self._events.extend(items)
            return
        if self.coalescer is None:
            self.coalescer = WatermarkCoalescer(len(self._edges), self.name, self._carriers())
            for other in self._edges:
                if other.is_done:
                    self.coalescer.done(other.ordinal)
        self._forget_resumed(self.coalescer)
        for item in items:
            idle = isinstance(item, Idle)
            (self.idle.add if idle else self.idle.discard)(edge.ordinal)
            self.fell_idle |= idle
            if isinstance(item, Idle):
                self._events.extend(self.coalescer.idle(edge.ordinal, item))
            else:
                self._events.extend(self.coalescer.observe(edge.ordinal, item))

    def _carriers(self) -> dict[int, set[int]] | None:
        """The inputs that bring each watermark; None if an edge does not declare its
        watermarks."""
        carriers: dict[int, set[int]] = {}
        for edge in self._edges:
            if edge.watermark_numbers is None:
                return None
            for number in edge.watermark_numbers.values():
                carriers.setdefault(number, set()).add(edge.ordinal)
        return carriers

    def _barrier(self, edge: InputEdge, queue: Queue, barrier: Barrier | Epoch) -> None:
        if self.barrier is None:
            self.barrier = barrier
        elif self.barrier != barrier:
            raise internal(f"{barrier} overtook {self.barrier} at {self.name}")
        edge.blocked.add(queue)
        self._check_alignment()

    def _check_alignment(self) -> None:
        """Makes the barrier an event when it has arrived in every queue that has not ended."""
        if self.barrier is not None and all(
            len(edge.blocked) == len(edge.live) for edge in self._edges
        ):
            self._events.append(self.barrier)
            self.barrier = None
            for edge in self._edges:
                edge.blocked.clear()

    def abandon(self) -> None:
        """Ends all inputs: items in the queues, and items that still arrive, are discarded."""
        self.inbox.clear()
        self._events.clear()
        self._group.clear()
        self._later.clear()
        self.barrier = None
        for edge in self._edges:
            live, edge.live = edge.live, []
            for queue in live:
                queue.abandon()
                queue.made_room()
