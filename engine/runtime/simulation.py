"""Runs an execution on one thread in an order drawn from a seed, so that any order of events can be
repeated.

Every decision that threads make is random here: which tasklet is called next, when the reader
reads, when a snapshot begins, and what other threads do between a call without progress and the
parking after it, which is where wake-ups could get lost. Queues are tiny, some wake-ups are
spurious, and time is virtual: it advances when nothing else can happen. A job that comes to a
standstill is detected at once, and everything that waits is shown.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from runnel.dag import DAG
from runnel.errors import Error
from runnel.expressions.context import EvaluationContext
from runnel.processor import JobContext
from runnel.processors.sinks.result_queue import ResultQueue
from runnel.runtime.execution import Execution, ExecutionOptions
from runnel.runtime.snapshots import SnapshotCoordinator
from runnel.runtime.tasklets.tasklet import DONE, MADE_PROGRESS, Tasklet
from runnel.runtime.template import Template
from runnel.runtime.threads.timers import NEVER, Timers
from runnel.storage.memory_budget import Memory
from runnel.testing.clock import ManualClock


class StandstillError(AssertionError):
    """No event can happen, and the job has not ended."""


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """The parameters of a simulation.

    parallelism: number of processors of a vertex without a parallelism of its own.
    capacity: capacity of every bounded queue, and of the results.
    spurious: probability of a spurious wake-up at a step.
    snapshot: probability that a snapshot begins at a step.
    delay: probability that another event happens before a tasklet is parked.
    reads: number of batches after which the reader cancels the job; None: it reads all.
    steps: maximum number of steps.
    evaluation: context in which expressions are evaluated.
    memory: memory budget of the operators; None: no limit.
    """

    parallelism: int = 2
    capacity: int = 1
    spurious: float = 0.05
    snapshot: float = 0.02
    delay: float = 0.3
    reads: int | None = None
    steps: int = 100_000
    evaluation: EvaluationContext = field(default_factory=EvaluationContext)
    memory: Memory | None = None


class Simulation:
    """One run of a DAG. `run` returns the batches of its results; afterwards `error`, `steps` and
    `snapshots_taken` have details. `template` replaces the DAG's own template, to test another
    one."""

    def __init__(
        self,
        dag: DAG,
        seed: int,
        options: SimulationOptions | None = None,
        snapshots: SnapshotCoordinator | None = None,
        template: Template | None = None,
    ) -> None:
        self.options = options or SimulationOptions()
        self.clock = ManualClock()
        self.error: Error | None = None
        self.steps = 0
        self.ends = 0
        self.snapshots_taken = 0
        self.batches: list[pa.RecordBatch] = []
        self._random = Random(seed)
        self._snapshots = snapshots
        self._ready: list[Tasklet] = []
        self._parking: deque[Tasklet] = deque()
        self._timers = Timers()
        self._results = ResultQueue(self.options.capacity)
        request = None if snapshots is None else snapshots.request
        values = self.options.evaluation, self.clock.monotonic, self._results
        job = JobContext(1, *values, request_snapshot=request, memory=self.options.memory)
        making = ExecutionOptions(
            self.options.parallelism, is_hand_built=True, capacity=self.options.capacity
        )
        self.execution = Execution(
            template or Template.of(dag), job, making, self._ended, snapshots
        )
        self._results.on_room = self.execution.wake_sinks
        for tasklet in self.execution.tasklets:
            tasklet.owner = self
            self._ready.append(tasklet)

    def run(self) -> list[pa.RecordBatch]:
        """Makes steps until the job has ended and its results are read. StandstillError if that is
        impossible."""
        while not self.execution.is_over or len(self._results):
            self.steps += 1
            if self.steps > self.options.steps:
                raise StandstillError(
                    f"not done after {self.options.steps} steps\n{self.describe()}"
                )
            self.step()
        return self.batches

    def step(self) -> None:
        """Lets one event happen."""
        chance = self._random.random
        if chance() < self.options.spurious:
            self._random.choice(self.execution.tasklets).wake()
        if self._snapshots is not None and chance() < self.options.snapshot:
            self._snapshots.begin(on_done=self._snapshot_done)
        if self._timers.next_time != NEVER and chance() < self.options.spurious:
            self._pass_time()
        moves = [*([self._call] if self._ready else []), *([self._park] if self._parking else [])]
        if len(self._results):
            moves.append(self._read)
        if moves:
            self._random.choice(moves)()
        elif self._timers.next_time != NEVER:
            self._pass_time()
        elif not self.execution.is_over:
            raise StandstillError(f"no event is possible\n{self.describe()}")

    def ready(self, tasklet: Tasklet) -> None:
        self._ready.append(tasklet)

    def wake_at(self, tasklet: Tasklet, time: int) -> None:
        self._timers.wake_at(tasklet, time)

    def _call(self) -> None:
        """The two halves of a turn; other random events may happen between them."""
        tasklet = self._ready.pop(self._random.randrange(len(self._ready)))
        tasklet.signalled = False
        progress = tasklet.call()
        if progress is DONE:
            tasklet.ended()
        elif progress is MADE_PROGRESS:
            self._ready.append(tasklet)
        else:
            self._parking.append(tasklet)
            if self._random.random() >= self.options.delay:
                self._park()

    def _park(self) -> None:
        tasklet = self._parking.pop()
        if not tasklet.park():
            self._ready.append(tasklet)

    def _read(self) -> None:
        batch = self._results.poll()
        if batch is not None:
            self.batches.append(batch)
        if self.options.reads is not None and len(self.batches) >= self.options.reads:
            self.execution.cancel()

    def _pass_time(self) -> None:
        self.clock.advance_to(self._timers.next_time)
        self._timers.fire(self.clock.monotonic())

    def _snapshot_done(self, is_safe: bool) -> None:
        self.snapshots_taken += is_safe

    def _ended(self, error: Error | None) -> None:
        self.error = error
        self.ends += 1
        self._results.end(error)

    def describe(self) -> str:
        """All tasklets, and all queues that are not empty."""
        lines = [repr(tasklet) for tasklet in self.execution.tasklets]
        lines += [repr(queue) for queue in self.execution.queues if queue.items]
        return "\n".join(lines)
