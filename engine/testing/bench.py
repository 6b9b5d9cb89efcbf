"""The bench on which `verify_processor` drives one processor: an inbox, an outbox that often
refuses, saved state, a clock."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from runnel.processor import (
    Epoch,
    Item,
    JobContext,
    Processor,
    ProcessorContext,
    Stateful,
    Transactional,
    Watermark,
)
from runnel.testing.clock import ManualClock

Arrivals = Iterator[tuple[int, "pa.RecordBatch | Watermark | None"]]
Maker = Callable[[JobContext], tuple[Processor, Callable[["BaseException | None"], None]]]


@dataclass(frozen=True, slots=True)
class BenchLimits:
    """The limits of a verification.

    call_seconds: maximum CPU time of one call in seconds; waiting of a blocking processor does not
        count.
    idle_calls: maximum number of successive calls without progress: the processor removes no batch
        from its inbox, emits none, and waits neither for room nor for time.
    """

    call_seconds: float = 2.0
    idle_calls: int = 100


@dataclass(frozen=True, slots=True)
class Conditions:
    """One mode of a verification.

    slicing: the division of the input into calls; "all at once" passes all batches to one call.
    tight: whether the outbox refuses every second offer.
    snapshots: whether to snapshot and restore at every point.
    """

    slicing: str
    tight: bool
    snapshots: bool

    def __str__(self) -> str:
        room = "an outbox of one item" if self.tight else "room downstream"
        return f"{self.slicing}, {room}, {'with' if self.snapshots else 'without'} snapshots"


class BenchInbox(deque[pa.RecordBatch]):
    """The batches for the next call (`runnel.processor.Inbox`)."""

    def peek(self) -> pa.RecordBatch | None:
        return self[0] if self else None

    def poll(self) -> pa.RecordBatch | None:
        return self.popleft() if self else None


class BenchOutbox:
    """Collects the items that the processor offers, and checks that a refused item is offered again
    before any other. If `tight`, it accepts one item per call, and refuses every second offer."""

    def __init__(self, outputs: int, tight: bool) -> None:
        self.outputs: list[list[Item]] = [[] for _ in range(outputs)]
        self.state: list[pa.RecordBatch] = []
        self.accepted = 0
        self.refused = False
        self.saving = False
        self._tight = tight
        self._room = True
        self._turn = False
        self._owed: tuple[Any, int] | None = None

    def begin_call(self) -> None:
        self.accepted = 0
        self.refused = False
        self._room = True

    def offer(self, item: Item, ordinal: int = -1) -> bool:
        assert -1 <= ordinal < len(self.outputs), f"there is no output {ordinal}"
        if isinstance(item, pa.RecordBatch) and item.num_rows == 0:
            return True
        if not self._accepts(item, ordinal):
            return False
        for output in self.outputs if ordinal == -1 else [self.outputs[ordinal]]:
            output.append(item)
        return True

    def offer_snapshot(self, batch: pa.RecordBatch) -> bool:
        assert self.saving, "offer_snapshot was called outside save_snapshot"
        if not self._accepts(batch, -2):
            return False
        self.state.append(batch)
        return True

    def _accepts(self, item: Item, ordinal: int) -> bool:
        if self._owed is not None:
            owed, output = self._owed
            same = owed is item or owed == item  # an equal item is accepted, too
            assert same and output == ordinal, (
                "after a refusal the same item must be offered again first"
            )
        if self._tight:
            self._turn = not self._turn
            if self._turn or not self._room:
                self.refused = True
                self._owed = (item, ordinal)
                return False
            self._room = False
        self._owed = None
        self.accepted += 1
        return True


class BenchResults:
    """The job's results. If `tight`, every second offer is refused, as by the outbox."""

    def __init__(self, tight: bool) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.epochs: list[Epoch] = []
        self.accepted = 0
        self.refused = False
        self._tight = tight
        self._turn = False

    def offer(self, batch: pa.RecordBatch) -> bool:
        self._turn = not self._turn
        if self._tight and self._turn:
            self.refused = True
            return False
        self.batches.append(batch)
        self.accepted += 1
        return True

    def end_epoch(self, epoch: Epoch) -> None:
        self.epochs.append(epoch)


class Bench:
    """Drives one processor from `init` to `close` under some conditions; `run` returns the items of
    each output."""

    def __init__(self, make: Maker, conditions: Conditions, limits: BenchLimits) -> None:
        self.clock = ManualClock()
        self.results = BenchResults(conditions.tight)
        self._make = make
        self._conditions = conditions
        self._limits = limits
        self._woken = False
        self._alarm: int | None = None
        self._inbox = BenchInbox()

    def run(
        self, job: JobContext, arrivals: Arrivals, inputs: int, outputs: int
    ) -> list[list[Item]]:
        self._outbox = BenchOutbox(outputs, self._conditions.tight)
        self._job = job
        self._processor, self._close_supplier = self._make(job)
        try:
            self._init()
            self._feed(arrivals)
            self._until_true(self._processor.complete, "complete", restorable=True)
        except BaseException as error:
            self._close(error)
            raise
        self._close(None)
        return self._outbox.outputs if outputs else [list(self.results.batches)]

    def _feed(self, arrivals: Arrivals) -> None:
        last = 0
        ended = False
        for ordinal, item in arrivals:
            if self._processor.is_satisfied:
                self._inbox.clear()
                return
            together = self._conditions.slicing == "all at once" and not ended and ordinal == last
            if self._inbox and not (together and isinstance(item, pa.RecordBatch)):
                self._process(last)
            last, ended = ordinal, item is None
            if item is None:
                self._until_true(partial(self._processor.complete_edge, ordinal), "complete_edge")
            elif isinstance(item, Watermark):
                self._until_true(
                    partial(self._processor.process_watermark, item), "process_watermark"
                )
            else:
                self._inbox.append(item)
                if self._conditions.slicing != "all at once":
                    self._process(ordinal)

    def _process(self, ordinal: int) -> None:
        idle = 0
        while self._inbox and not self._processor.is_satisfied:
            before = len(self._inbox)
            self._call(lambda: self._processor.process(ordinal, self._inbox), "process")
            idle = (
                0
                if len(self._inbox) < before or self._moved()
                else self._count_idle(idle, "process")
            )
        if self._conditions.snapshots:
            self._restore()  # without a flush, so that rows held back must be in the state
        else:
            self._until_true(self._processor.flush, "flush")

    def _restore(self) -> None:
        """Saves the state, closes the processor, and continues with a new processor that restores
        the state."""
        self._save()
        state, self._outbox.state = self._outbox.state, []
        self._close(None)
        self._processor, self._close_supplier = self._make(self._job)
        self._init()
        if isinstance(self._processor, Stateful):
            for batch in state:
                self._call(partial(self._processor.restore_snapshot, batch), "restore_snapshot")
            self._until_true(self._processor.finish_restore, "finish_restore")

    def _save(self) -> None:
        """Makes the calls of a barrier, and then the calls of a durable snapshot."""
        processor = self._processor
        if isinstance(processor, Stateful):
            self._outbox.saving = True
            self._until_true(processor.save_snapshot, "save_snapshot")
            self._outbox.saving = False
        else:
            self._until_true(processor.flush, "flush")
        if isinstance(processor, Transactional):
            self._until_true(lambda: processor.prepare_commit(1), "prepare_commit")
            self._until_true(lambda: processor.commit(1, True), "commit")

    def _init(self) -> None:
        context = ProcessorContext(
            job=self._job,
            vertex="verified",
            index=0,
            parallelism=1,
            wake=self._wake,
            wake_at=self._wake_at,
            logger=logging.getLogger("runnel.testing"),
        )
        self._call(lambda: self._processor.init(self._outbox, context), "init")
        assert not self._outbox.accepted, "init may not offer anything"

    def _until_true(self, method: Callable[[], bool], name: str, restorable: bool = False) -> None:
        idle = 0
        while True:
            done = self._call(method, name)
            assert isinstance(done, bool), f"{name} returned {done!r} instead of True or False"
            if done:
                return
            idle = 0 if self._moved() else self._count_idle(idle, name)
            if (
                restorable
                and self._conditions.snapshots
                and not self._outbox.refused
                and not self.results.refused
            ):
                self._restore()
                method = self._processor.complete

    def _moved(self) -> bool:
        """Whether the last call made progress: an item, a refusal, or an alarm. The clock advances
        to the alarm."""
        if (
            self._outbox.accepted
            or self._outbox.refused
            or self.results.accepted
            or self.results.refused
            or self._woken
        ):
            return True
        if self._alarm is not None:
            self.clock.advance_to(self._alarm)
            self._alarm = None
            return True
        return False

    def _count_idle(self, idle: int, name: str) -> int:
        assert idle < self._limits.idle_calls, (
            f"{name} made no progress in {idle} calls and waits for nothing"
        )
        if not self._processor.cooperative:
            time.sleep(0)
        return idle + 1

    def _call(self, method: Callable[[], Any], name: str) -> Any:
        self._outbox.begin_call()
        self.results.accepted = 0
        self.results.refused = False
        self._woken = False
        started = time.thread_time_ns()
        result = method()
        seconds = (time.thread_time_ns() - started) / 1e9
        assert seconds <= self._limits.call_seconds, (
            f"a call of {name} took {seconds:.3f} s of CPU time"
        )
        return result

    def _wake(self) -> None:
        self._woken = True

    def _wake_at(self, time: int) -> None:
        self._alarm = time if self._alarm is None else min(self._alarm, time)

    def _close(self, error: BaseException | None) -> None:
        self._processor.close()
        self._close_supplier(error)
