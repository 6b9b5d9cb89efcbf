"""The watermarks of a followed folder at lag 0: no row is late, whatever the order of events.

Writers append rows and rotate their files between the steps of a simulation. Each row of a series
has a later time than the one before; series are at different times, so a row is late if the
partition of one file advances the watermark while another one has rows still. Each series has a
folder, because a file is finished by the next file of its folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from runnel.connector import EventTimeMark, ScanRequest, SourcePartition
from runnel.connectors.files.follow.partition import BEGUN
from runnel.dag import DAG, Vertex, between
from runnel.expressions.nodes import Column
from runnel.processor import Inbox, Processor, Watermark
from runnel.processors.sources.partition_watermarks import TimeRule
from runnel.processors.sources.watermark_scan import event_time_scan
from runnel.runtime.simulation import Simulation, SimulationOptions
from runnel.sqltypes import BIGINT
from tests.connectors.conformance import visible
from tests.connectors.files.cases import mapping
from tests.connectors.files.follow.followers import POLL, Execution
from tests.effort import ALL
from tests.runtime.sample_processors import Pass, values_of

SEEDS = range(100) if ALL else range(6)
TIME = Column(index=0, name="time", type=BIGINT)
STEPS = 60_000


class Log(Processor):
    """Collects rows; those below the watermark are late."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.last = -1

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while (batch := inbox.poll()) is not None:
            times = values_of([batch])
            self.run.rows.update(times)
            self.run.late += [(time, self.last) for time in times if time < self.last]

    def process_watermark(self, watermark: Watermark) -> bool:
        self.last = self.run.watermark = watermark.time
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


class Run:
    """A simulated job over some series.

    seed: of the order of events, of the rows and of the rotations.
    """

    def __init__(
        self,
        path: Path,
        seed: int,
        connect: Callable[[DAG, Vertex, Vertex], None],
        parallelism: int,
        idle_timeout: int = 0,
    ) -> None:
        self.random = Random(seed)
        self.rows: Counter[int] = Counter()
        self.watermark = -1
        self.late: list[tuple[int, int]] = []
        self.written: Counter[int] = Counter()
        self.copies = 2 if connect is by_two_inputs else 1
        self.series = [
            Series(path / f"s{n}", self.random.choice((1, 5, 50, 500)))
            for n in range(self.random.randrange(2, 5))
        ]
        table = mapping(
            path / "*" / "*.csv",
            [("time", BIGINT)],
            format="csv",
            header="false",
            follow="true",
            partitions="24",
        )
        source = table.scan(ScanRequest(visible(table)))
        rule = TimeRule(TIME, None, 0, 0, idle_timeout=idle_timeout)
        dag = DAG()
        scan = dag.vertex("scan", event_time_scan(source, None, None, ("time",), rule), parallelism)
        log = dag.vertex("log", lambda: Log(self), 1)
        connect(dag, scan, log)
        self.simulation = Simulation(dag, seed, SimulationOptions(capacity=2, spurious=0))

    def write(self) -> None:
        series = self.random.choice(self.series)
        if series.time and self.random.random() < 0.3:
            series.rotate()
        for time in series.append(self.random.randrange(1, 4)):
            self.written[time] += self.copies

    def run(self, writes: int) -> None:
        for _ in range(writes):
            self.write()
            for _ in range(self.random.choice((1, 20, 200))):
                self.step()
        self.settle()

    def step(self) -> None:
        """Lets one event happen, perhaps after a part of the poll interval."""
        if self.random.random() < 0.02:
            self.simulation.clock.advance(POLL // 2)
        self.simulation.step()

    def settle(self) -> None:
        """Makes steps until all rows have come, and the watermark of the last files."""
        least = min(series.time for series in self.series)
        for _ in range(STEPS):
            if self.rows == self.written and self.watermark == least:
                break
            self.step()
        assert (self.rows, self.watermark) == (self.written, least)
        self.simulation.execution.cancel()
        self.simulation.run()


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("connect", [directly, by_ways, by_two_inputs])
def test_no_row_of_a_rotated_series_is_late(
    tmp_path: Path, connect: Callable[[DAG, Vertex, Vertex], None], parallelism: int
) -> None:
    for seed in SEEDS:
        (tmp_path / str(seed)).mkdir()
        job = Run(tmp_path / str(seed), seed, connect, parallelism)
        job.run(40)
        assert job.late == [], (seed, job.late[:5])


def test_a_finished_file_is_finished_in_the_position(tmp_path: Path) -> None:
    """After a restart a new file begins in a partition whose files are finished, and the earlier
    watermark of that partition is void."""
    for number, name in enumerate("abc"):
        (tmp_path / f"{name}.csv").write_text(f"id,name\n{number},x\n")
    first = Execution(tmp_path, partitions="4")
    first.look()
    first.look()
    assert first.held() == ["files 2"]
    tokens = first.positions()
    finished = [
        position.get("is_finished")
        for token in tokens.values()
        for position in token["files"].values()
    ]
    assert finished == [True, True, None]
    (tmp_path / "d.csv").write_text("id,name\n3,x\n")
    (tmp_path / "e.csv").write_text("id,name\n4,x\n")
    with (tmp_path / "b.csv").open("a") as file:
        file.write("5,x\n")
    second = Execution(tmp_path, first.clock, tokens, partitions="4")
    marks = {name: _mark(part) for name, part in second.parts.items()}
    assert marks == {"0": BEGUN, "files 1": BEGUN, "files 2": None, "files 3": BEGUN}
    assert second.look() == {"0": [3], "files 1": [5], "files 3": [4]}


def _mark(part: SourcePartition) -> EventTimeMark | None:
    for _ in range(3):
        item = part.read()
        if isinstance(item, EventTimeMark):
            return item
    return None
