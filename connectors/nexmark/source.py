"""Reads NEXMark events: their order, their distribution to partitions, and their rate.

A partition has every p-th round of 50 events. Its position is the number of its events (of all
tables) that have arrived. With jitter an event arrives up to the jitter later than its number says,
so that the same events come in another order, and the lateness in event time is at most the jitter.
Both follow from the seed, so a position denotes the same events in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import Indexes
from runnel.connector import END, End, Pause, Source, SourcePartition, SourceTraits, Token
from runnel.connectors.nexmark.events import IN_TURN, OFFSETS, EventTiming, rows
from runnel.connectors.nexmark.random_numbers import draws, low_below
from runnel.errors import OperationalError
from runnel.processor import JobContext

SECOND = 1_000_000_000
LEAST_PAUSE = 1_000_000
"""The minimum sleep of a source with a rate, in ns."""

BLOCK_EVENTS = {
    "person": 8192 * IN_TURN,
    "auction": 8192 * IN_TURN,
    "bid": 512 * IN_TURN,
    "event": 512 * IN_TURN,
}
"""The number of its events that a partition computes at a time: at most BATCH_ROWS rows of the
table."""

BLOCKS_PER_SECOND = 100
"""With a rate, events are computed ahead for a hundredth of a second."""

_JITTER_STREAM = 99


@frozen
class EventSchedule:
    """The parameters of a scan.

    table: one of OFFSETS.
    events: the number of all events; None: without end.
    rate: events per second of processing time; None: as fast as possible.
    seed: the seed of all random numbers.
    jitter: the maximum delay of an event, in events.
    partitions: the number of partitions.
    timing: the event time of events.
    """

    table: str
    events: int | None
    rate: int | None
    seed: int
    jitter: int
    partitions: int
    timing: EventTiming


class NexmarkSource(Source):
    """A scan: `columns` are names of NEXMark, `names` the query's names."""

    traits = SourceTraits(is_repeatable=True)
    kind = "a Nexmark source"

    def __init__(
        self, plan: EventSchedule, columns: tuple[str, ...], names: tuple[str, ...]
    ) -> None:
        self._plan = plan
        self._columns = columns
        self._names = names

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        started = context.clock()
        return [
            NexmarkPartition(
                PartitionEvents(self._plan, index),
                self._columns,
                self._names,
                (context.clock, started),
            )
            for index in range(self._plan.partitions)
        ]


class PartitionEvents:
    """The events of one partition and their order of arrival. Indexes are counted from 0."""

    def __init__(self, plan: EventSchedule, index: int) -> None:
        self.plan = plan
        self.index = index
        self._jitter = plan.jitter // plan.partitions
        self._offsets = np.arange(*OFFSETS[plan.table])
        self.event_count = None if plan.events is None else self.events_before(plan.events)

    @property
    def end(self) -> int | None:
        """The index after the last arrival; None without an end."""
        return None if self.event_count is None else self.event_count + self._jitter

    def number(self, index: int) -> int:
        """The number of the event with an index, without jitter."""
        rounds, offset = divmod(index, IN_TURN)
        return (rounds * self.plan.partitions + self.index) * IN_TURN + offset

    def events_before(self, number: int) -> int:
        """How many events of this partition have a smaller number."""
        rounds, offset = divmod(number, IN_TURN)
        whole, turn = divmod(rounds, self.plan.partitions)
        if turn == self.index:
            return whole * IN_TURN + offset
        return (whole + (turn > self.index)) * IN_TURN

    def arrivals(self, low: int, high: int) -> tuple[Indexes, Indexes]:
        """The table's events that arrive at the indexes from `low` to before `high`.

        Returns their numbers and the indexes of their arrival, in the order of arrival.
        """
        # Example: bids (offsets 4 to 49), one partition, no jitter, low = 0, high = 52. rounds =
        # [0, 1]. Without jitter, the index of arrival is the index of the event: [4, …, 49, 54, …,
        # 99], cut by searchsorted to [4, …, 49]. With p partitions the numbers differ: round 1 of
        # partition 0 is round p of all events. With jitter each event is delayed by a random number
        # of indexes; events from `low - jitter` on may arrive in the range.
        first = max(0, low - self._jitter)
        after = high if self.event_count is None else min(high, self.event_count)
        rounds = np.arange(first // IN_TURN, -(-after // IN_TURN))
        arrivals = (rounds[:, None] * IN_TURN + self._offsets).ravel()
        start, stop = np.searchsorted(arrivals, (first, after))
        arrivals = arrivals[start:stop]
        of_partition = (rounds * self.plan.partitions + self.index) * IN_TURN
        numbers = (of_partition[:, None] + self._offsets).ravel()[start:stop]
        if not self._jitter:
            return numbers, arrivals
        arrivals = arrivals + low_below(
            draws(numbers, self.plan.seed, _JITTER_STREAM), self._jitter + 1
        )
        arriving = np.flatnonzero((arrivals >= low) & (arrivals < high))
        order = arriving[np.argsort(arrivals[arriving], kind="stable")]
        return numbers[order], arrivals[order]


class NexmarkPartition(SourcePartition):
    """Reads one share. `time` is the clock, and the time when the whole source started."""

    def __init__(
        self,
        share: PartitionEvents,
        columns: tuple[str, ...],
        names: tuple[str, ...],
        time: tuple[Callable[[], int], int],
    ) -> None:
        self._share = share
        self.identity = f"{share.index} of {share.plan.partitions}"
        self._columns = columns
        self._names = list(names)
        self._clock, self._started = time
        self._next_index = 0
        self._batch: pa.RecordBatch | None = None
        self._block_indexes = np.zeros(0, np.int64)
        self._row = 0
        self._block_end = 0
        self._last: int | None = None

    def read(self) -> pa.RecordBatch | Pause | End:
        while True:
            if self._next_index == self._last or (
                self._next_index >= self._block_end and not self._next_block()
            ):
                return END
            stop = self._stop()
            row = (
                len(self._block_indexes)
                if stop == self._block_end
                else int(np.searchsorted(self._block_indexes, stop))
            )
            self._next_index = max(self._next_index, stop)
            if row > self._row:
                assert self._batch is not None
                taken = self._batch.slice(self._row, row - self._row)
                self._row = row
                return taken
            if self._next_index < self._block_end and self._next_index != self._last:
                return self._pause()

    def position(self) -> Token | None:
        return {
            "partition": self._share.index,
            "of": self._share.plan.partitions,
            "place": self._next_index,
        }

    def seek(self, token: Token) -> None:
        self._check(token)
        self._next_index = self._block_end = token["place"]
        rate = self._share.plan.rate
        if rate is not None:
            self._started -= self._share.number(self._next_index) * SECOND // rate

    def stop_at(self, token: Token) -> None:
        self._check(token)
        self._last = token["place"]

    def _check(self, token: Token) -> None:
        """OperationalError if the position is of another partition."""
        share = self._share
        if (token["partition"], token["of"]) != (share.index, share.plan.partitions):
            raise OperationalError(
                f"partition {share.index} of {share.plan.partitions} of a Nexmark source can't "
                "resume from a "
                f"position of partition {token['partition']} of {token['of']}",
                hint='keep the option "partitions" as it was',
            )

    def _next_block(self) -> bool:
        """Computes the next events; False if there are none."""
        plan, end = self._share.plan, self._share.end
        low = self._block_end
        if end is not None and low >= end:
            return False
        size = BLOCK_EVENTS[plan.table]
        if plan.rate is not None:
            size = min(size, max(plan.rate // (BLOCKS_PER_SECOND * plan.partitions), IN_TURN))
        self._block_end = low + size if end is None else min(low + size, end)
        numbers, self._block_indexes = self._share.arrivals(low, self._block_end)
        made = rows(plan.table, numbers, self._columns, plan.seed, plan.timing)
        self._batch = made.rename_columns(self._names) if self._names else made
        self._row = 0
        return True

    def _stop(self) -> int:
        """The index up to which events may be emitted now."""
        rate = self._share.plan.rate
        if self._last is not None:  # rows that were read before are read again without a rate
            return min(self._last, self._block_end)
        if rate is None:
            return self._block_end
        due = (self._clock() - self._started) * rate // SECOND
        return min(self._share.events_before(due + 1), self._block_end)

    def _pause(self) -> Pause:
        """A pause until the next event of the block is due."""
        rate = self._share.plan.rate
        assert rate is not None
        following = (
            int(self._block_indexes[self._row])
            if self._row < len(self._block_indexes)
            else self._block_end
        )
        due = self._started + -(-self._share.number(following) * SECOND // rate)
        return Pause(max(due, self._clock() + LEAST_PAUSE))
