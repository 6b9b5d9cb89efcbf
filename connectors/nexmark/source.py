"""Reading NEXMark events: their order, their division among partitions, and their speed.

A partition has every p-th round of 50 events. Its place is a number: how many of its events (of all
tables) have arrived. With jitter an event arrives up to so many events later than its number says,
so that the same events come in another order, and none is further behind in event time than the
jitter. Both follow from the seed, so a place means the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import Indexes
from runnel.connector import END, End, Pause, Source, SourcePartition, Token
from runnel.connectors.nexmark.events import IN_TURN, OFFSETS, Timing, rows
from runnel.connectors.nexmark.random_numbers import draws, low_below
from runnel.errors import OperationalError
from runnel.processor import JobContext

SECOND = 1_000_000_000
LEAST_PAUSE = 1_000_000
"""How long (ns) a source that is held to a rate sleeps at least."""

BLOCK_EVENTS = {
    "person": 8192 * IN_TURN,
    "auction": 8192 * IN_TURN,
    "bid": 512 * IN_TURN,
    "event": 512 * IN_TURN,
}
"""How many of its events a partition computes at a time: at most BATCH_ROWS rows of the table."""

BLOCKS_PER_SECOND = 100
"""Held to a rate it computes ahead for a hundredth of a second."""

_JITTER_STREAM = 99


@frozen
class Plan:
    """What is read: `events` in all (None: without end), `rate` of them per second of processing
    time (None: as fast as it goes), with a jitter of so many events."""

    table: str
    events: int | None
    rate: int | None
    seed: int
    jitter: int
    partitions: int
    timing: Timing


class NexmarkSource(Source):
    """A scan: `columns` as NEXMark calls them, `names` as the query does."""

    is_repeatable = True
    kind = "a Nexmark source"

    def __init__(self, plan: Plan, columns: tuple[str, ...], names: tuple[str, ...]) -> None:
        self._plan = plan
        self._columns = columns
        self._names = names

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        started = context.clock()
        return [
            NexmarkPartition(
                Share(self._plan, index), self._columns, self._names, (context.clock, started)
            )
            for index in range(self._plan.partitions)
        ]


class Share:
    """The events of one partition: which they are, in which order they arrive. Places are counted
    from 0."""

    def __init__(self, plan: Plan, index: int) -> None:
        self.plan = plan
        self.index = index
        self._jitter = plan.jitter // plan.partitions
        self._offsets = np.arange(*OFFSETS[plan.table])
        self.event_count = None if plan.events is None else self.places_before(plan.events)

    @property
    def end(self) -> int | None:
        """The place after the last arrival; None where there is none."""
        return None if self.event_count is None else self.event_count + self._jitter

    def number(self, place: int) -> int:
        """The number of the event at a place, without jitter."""
        rounds, offset = divmod(place, IN_TURN)
        return (rounds * self.plan.partitions + self.index) * IN_TURN + offset

    def places_before(self, number: int) -> int:
        """How many events of this partition have a smaller number."""
        rounds, offset = divmod(number, IN_TURN)
        whole, turn = divmod(rounds, self.plan.partitions)
        if turn == self.index:
            return whole * IN_TURN + offset
        return (whole + (turn > self.index)) * IN_TURN

    def arrivals(self, low: int, high: int) -> tuple[Indexes, Indexes]:
        """The numbers of the table's events that arrive at the places from `low` to before `high`,
        and these places."""
        first = max(0, low - self._jitter)
        after = high if self.event_count is None else min(high, self.event_count)
        rounds = np.arange(first // IN_TURN, -(-after // IN_TURN))
        places = (rounds[:, None] * IN_TURN + self._offsets).ravel()
        start, stop = np.searchsorted(places, (first, after))
        places = places[start:stop]
        of_partition = (rounds * self.plan.partitions + self.index) * IN_TURN
        numbers = (of_partition[:, None] + self._offsets).ravel()[start:stop]
        if not self._jitter:
            return numbers, places
        places = places + low_below(
            draws(numbers, self.plan.seed, _JITTER_STREAM), self._jitter + 1
        )
        arriving = np.flatnonzero((places >= low) & (places < high))
        order = arriving[np.argsort(places[arriving], kind="stable")]
        return numbers[order], places[order]


class NexmarkPartition(SourcePartition):
    """Reads one share. `time` is the clock, and when the whole source started."""

    def __init__(
        self,
        share: Share,
        columns: tuple[str, ...],
        names: tuple[str, ...],
        time: tuple[Callable[[], int], int],
    ) -> None:
        self._share = share
        self.identity = f"{share.index} of {share.plan.partitions}"
        self._columns = columns
        self._names = list(names)
        self._clock, self._started = time
        self._place = 0
        self._batch: pa.RecordBatch | None = None
        self._places = np.zeros(0, np.int64)
        self._row = 0
        self._block_end = 0
        self._last: int | None = None

    def read(self) -> pa.RecordBatch | Pause | End:
        while True:
            if self._place == self._last or (
                self._place >= self._block_end and not self._next_block()
            ):
                return END
            stop = self._stop()
            row = (
                len(self._places)
                if stop == self._block_end
                else int(np.searchsorted(self._places, stop))
            )
            self._place = max(self._place, stop)
            if row > self._row:
                assert self._batch is not None
                taken = self._batch.slice(self._row, row - self._row)
                self._row = row
                return taken
            if self._place < self._block_end and self._place != self._last:
                return self._pause()

    def position(self) -> Token | None:
        return {
            "partition": self._share.index,
            "of": self._share.plan.partitions,
            "place": self._place,
        }

    def seek(self, token: Token) -> None:
        self._check(token)
        self._place = self._block_end = token["place"]
        rate = self._share.plan.rate
        if rate is not None:
            self._started -= self._share.number(self._place) * SECOND // rate

    def stop_at(self, token: Token) -> None:
        self._check(token)
        self._last = token["place"]

    def _check(self, token: Token) -> None:
        """OperationalError where the position is one of another partition."""
        share = self._share
        if (token["partition"], token["of"]) != (share.index, share.plan.partitions):
            raise OperationalError(
                f"partition {share.index} of {share.plan.partitions} of a Nexmark source can't go "
                "on from a "
                f"position of partition {token['partition']} of {token['of']}",
                hint='keep the option "partitions" as it was',
            )

    def _next_block(self) -> bool:
        """Computes the next events; False where there are none."""
        plan, end = self._share.plan, self._share.end
        low = self._block_end
        if end is not None and low >= end:
            return False
        size = BLOCK_EVENTS[plan.table]
        if plan.rate is not None:
            size = min(size, max(plan.rate // (BLOCKS_PER_SECOND * plan.partitions), IN_TURN))
        self._block_end = low + size if end is None else min(low + size, end)
        numbers, self._places = self._share.arrivals(low, self._block_end)
        made = rows(plan.table, numbers, self._columns, plan.seed, plan.timing)
        self._batch = made.rename_columns(self._names) if self._names else made
        self._row = 0
        return True

    def _stop(self) -> int:
        """The place up to which events may be given now."""
        rate = self._share.plan.rate
        if self._last is not None:  # what was read once is read again as fast as it goes
            return min(self._last, self._block_end)
        if rate is None:
            return self._block_end
        due = (self._clock() - self._started) * rate // SECOND
        return min(self._share.places_before(due + 1), self._block_end)

    def _pause(self) -> Pause:
        """Until the next event of the block is due."""
        rate = self._share.plan.rate
        assert rate is not None
        following = (
            int(self._places[self._row]) if self._row < len(self._places) else self._block_end
        )
        due = self._started + -(-self._share.number(following) * SECOND // rate)
        return Pause(max(due, self._clock() + LEAST_PAUSE))
