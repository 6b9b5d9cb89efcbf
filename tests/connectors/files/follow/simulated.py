"""A simulated job over a followed folder, and the programs that write its files meanwhile.

Each row has a time of its own. The job runs at lag 0, so a row is late if the partition of one file
advances the watermark while another one has rows still.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from runnel.connector import ScanRequest
from runnel.connectors.files.follow import file, listing
from runnel.dag import DAG, Vertex, between
from runnel.expressions.nodes import Column
from runnel.processor import Inbox, Processor, Watermark
from runnel.processors.sources.partition_watermarks import TimeRule
from runnel.processors.sources.watermark_scan import event_time_scan
from runnel.runtime.simulation import Simulation, SimulationOptions
from runnel.runtime.snapshots import SnapshotCoordinator
from runnel.snapshots.store import MemorySnapshotStore
from runnel.sqltypes import BIGINT
from tests.connectors.conformance import visible
from tests.connectors.files.cases import mapping
from tests.connectors.files.follow.followers import POLL
from tests.runtime.sample_processors import Pass, values_of

TIME = Column(index=0, name="time", type=BIGINT)
STEPS = 60_000

Connect = Callable[[DAG, Vertex, Vertex], None]


class Log(Processor):
    """Collects rows; those below the watermark are late.

    The rows count when they are committed with a snapshot; at once if the job takes no snapshots.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.last = run.restored_watermark
        self.rows: list[int] = []

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while (batch := inbox.poll()) is not None:
            times = values_of([batch])
            if self.run.store is None:
                self.run.rows.update(times)
            else:
                self.rows += times
            self.run.late += [(time, self.last) for time in times if time < self.last]

    def process_watermark(self, watermark: Watermark) -> bool:
        self.last = self.run.watermark = max(self.last, watermark.time)
        return True

    def prepare_commit(self, snapshot_id: int) -> bool:
        if self.run.log is self:
            self.run.staged[snapshot_id] = (self.rows, self.last)
            self.rows = []
        return True

    def commit(self, snapshot_id: int, success: bool) -> bool:
        if success and self.run.log is self:
            self.run.publish(snapshot_id)
        return True


class Series:
    """A program that writes a file after another into a folder, at its own times."""

    def __init__(self, folder: Path, pace: int) -> None:
        self.folder = folder
        self.pace = pace
        self.time = 0
        self.number = 0
        folder.mkdir()
        self.path.touch()

    @property
    def path(self) -> Path:
        return self.folder / f"{self.number:04}.csv"

    def append(self, count: int) -> list[int]:
        times = [self.time + self.pace * (step + 1) for step in range(count)]
        self.time = times[-1]
        with self.path.open("a") as file:
            file.write("".join(f"{time}\n" for time in times))
        return times

    def rotate(self) -> None:
        self.number += 1
        self.path.touch()


def directly(dag: DAG, scan: Vertex, log: Vertex) -> None:
    dag.edge(between(scan, log))


def by_ways(dag: DAG, scan: Vertex, log: Vertex) -> None:
    """Each processor of the scan has a way of its own."""
    way = dag.vertex("way", Pass, scan.parallelism)
    dag.edge(between(scan, way).isolated()).edge(between(way, log))


def by_two_inputs(dag: DAG, scan: Vertex, log: Vertex) -> None:
    """As a union of the stream with itself."""
    for number in range(2):
        way = dag.vertex(f"way {number}", Pass, 2)
        dag.edge(between(scan, way).from_output(number)).edge(between(way, log).to_input(number))


@dataclass(frozen=True)
class Setup:
    """A simulated job.

    seed: of the order of events, of the rows and of the rotations.
    connect: adds the edges from the scan to the log.
    parallelism: the number of processors of the scan.
    partitions: the number of partitions of the folder.
    idle_timeout: in milliseconds; 0: none.
    snapshots: whether the job takes snapshots, from which it can restart.
    """

    seed: int
    connect: Connect = directly
    parallelism: int = 2
    partitions: int = 24
    idle_timeout: int = 0
    snapshots: bool = False


class Run:
    """A simulated job over some series, each of which has its own clock."""

    def __init__(self, path: Path, setup: Setup) -> None:
        self.path = path / str(setup.seed)
        self.path.mkdir()
        self.setup = setup
        self.random = Random(setup.seed)
        self.rows: Counter[int] = Counter()
        self.staged: dict[int, tuple[list[int], int]] = {}
        self.restored_watermark = self.watermark = -1
        self.late: list[tuple[int, int]] = []
        self.written: Counter[int] = Counter()
        self.copies = 2 if setup.connect is by_two_inputs else 1
        self.series: list[Series] = []
        self.begin_series()
        self.store = MemorySnapshotStore() if setup.snapshots else None
        self.restarts = 0
        self.log: Log | None = None
        self.start(setup.parallelism)

    def begin_series(self) -> None:
        for number in range(self.random.randrange(2, 5)):
            folder = self.path / f"s{number}"
            self.series.append(Series(folder, self.random.choice((1, 5, 50, 500))))

    def start(self, parallelism: int) -> None:
        """Starts an execution, from the last snapshot if there is one."""
        setup = self.setup
        table = mapping(
            self.path / "*" / "*.csv",
            [("time", BIGINT)],
            format="csv",
            header="false",
            follow="true",
            partitions=str(setup.partitions),
        )
        source = table.scan(ScanRequest(visible(table)))
        rule = TimeRule(TIME, None, 0, 0, idle_timeout=setup.idle_timeout)
        dag = DAG()
        scan = dag.vertex("scan", event_time_scan(source, None, None, ("time",), rule), parallelism)
        setup.connect(dag, scan, dag.vertex("log", self._new_log, 1))
        coordinator = None
        if self.store is not None:
            coordinator = SnapshotCoordinator(self.store, restore_from=self.store.completed)
        self.simulation = Simulation(
            dag,
            self.random.randrange(1 << 30),
            SimulationOptions(capacity=2, spurious=0),
            coordinator,
        )

    def _new_log(self) -> Log:
        self.log = Log(self)
        return self.log

    def publish(self, snapshot_id: int) -> None:
        """The rows of a snapshot, and of earlier ones, are committed."""
        for number in sorted(self.staged):
            if number <= snapshot_id:
                rows, self.restored_watermark = self.staged.pop(number)
                self.rows.update(rows)

    def perhaps_restart(self) -> None:
        """Restarts a job that takes snapshots, at times, with another number of processors."""
        if self.store is not None and self.random.random() < 0.002:
            self.restart(self.random.randrange(1, 4))

    def restart(self, parallelism: int) -> None:
        """Ends the execution as if its process was killed, and starts another one."""
        self.restarts += self.restored_watermark >= 0
        self.log = None
        self.stop()
        assert self.store is not None
        self.publish(self.store.completed or 0)
        self.staged.clear()
        self.watermark = self.restored_watermark
        self.start(parallelism)

    def write(self) -> None:
        series = self.random.choice(self.series)
        if series.time and self.random.random() < 0.3:
            series.rotate()
        self.append(series)

    def append(self, series: Series) -> None:
        for time in series.append(self.random.randrange(1, 4)):
            self.written[time] += self.copies

    def run(self, writes: int) -> None:
        for _ in range(writes):
            self.write()
            for _ in range(self.random.choice((1, 20, 200))):
                self.step()
                self.perhaps_restart()
        self.settle(self.least)

    @property
    def least(self) -> int:
        """The watermark that holds for all files."""
        return min(series.time for series in self.series)

    def step(self) -> None:
        """Lets one event happen, perhaps after a part of the poll interval."""
        if self.random.random() < 0.02:
            self.simulation.clock.advance(POLL // 2)
        self.simulation.step()

    def settle(self, least: int, most: int | None = None) -> None:
        """Makes steps until all rows have come, and the watermark `least`, or one up to `most`."""
        most = least if most is None else most
        for _ in range(STEPS):
            if least <= self.watermark <= most and self.rows == self.written:
                break
            self.step()
        assert self.rows == self.written
        assert least <= self.watermark <= most

    def stop(self) -> None:
        self.simulation.execution.cancel()
        self.simulation.run()


class Ordered(Run):
    """Programs with one clock: each row has a later time than all rows that exist in any file, and
    a program may begin at any time.

    The programs also write between any two calls of the file system.
    """

    now = 0
    writes = 0
    ended: Sequence[Series] = ()

    def begin_series(self) -> None:
        self.append(self._new_series())

    def _new_series(self) -> Series:
        number = len(self.ended) + len(self.series)
        self.series.append(Series(self.path / f"s{number}", 1))
        return self.series[-1]

    def write(self) -> None:
        if not self.series or (len(self.series) < 4 and self.random.random() < 0.2):
            self.append(self._new_series())
        else:
            super().write()

    def append(self, series: Series) -> None:
        series.time = self.now
        super().append(series)
        self.now = series.time

    def run(self, writes: int) -> None:
        self.writes = writes
        while self.writes > 0:
            self.step()
            if self.random.random() < 0.02:
                self.interrupt()
            self.perhaps_restart()
        self.settle(self.least, self.most)

    @property
    def most(self) -> int:
        """The greatest watermark that is right, if each partition has one file at most."""
        return self.least

    def delete_all(self) -> None:
        """Deletes all files, which were read to their ends."""
        for series in self.series:
            for path in series.folder.iterdir():
                path.unlink()
        self.ended, self.series = [*self.ended, *self.series], []

    def interrupt(self) -> None:
        """Another process is scheduled, perhaps during a call of the file system."""
        if self.writes > 0 and self.random.random() < 0.1:
            for _ in range(self.random.randrange(1, 6)):
                self.write()
                self.writes -= 1

    def patch(self, patched: pytest.MonkeyPatch) -> None:
        for module, name in ((listing, "mark_of"), (listing, "files_now"), (file, "open_bytes")):
            patched.setattr(module, name, self._interrupted(getattr(module, name)))

    def _interrupted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def interrupted(*arguments: Any) -> Any:
            self.interrupt()
            return call(*arguments)

        return interrupted


class Crowded(Ordered):
    """More programs than partitions: a partition has one watermark for all of its files."""

    @property
    def most(self) -> int:
        return self.now


class Timed(Ordered):
    """Some programs write a row in each time-out, and one writes no more after its first row."""

    def begin_series(self) -> None:
        self.wrote: dict[int, int] = {}
        super().begin_series()
        self.append(self._new_series())

    def write(self) -> None:
        self.append(self.random.choice(self.series[1:]))

    def step(self) -> None:
        super().step()
        now = self.simulation.clock.monotonic()
        for number, series in enumerate(self.series[1:]):
            if self.writes > 0 and now - self.wrote.get(number, 0) > 2 * POLL:
                self.append(series)
                self.wrote[number] = now

    @property
    def least(self) -> int:
        return self.now
