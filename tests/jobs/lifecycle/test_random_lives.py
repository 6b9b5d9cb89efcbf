"""Lives of jobs drawn from a seed: suspended, resumed, restarted, failing, left and opened again at
any moment. However it went, each number is committed once."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from runnel.errors import DataError, Error, OperationalError
from runnel.processor import Guarantee
from runnel.runtime.light_job import JobStatus
from tests.effort import some
from tests.jobs.named import PATIENCE, SECOND, Bench, World
from tests.waiting import eventually


class Life:
    """One job, and what may happen to it."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.world = World()
        self.bench = Bench(folder, self.world)
        self.log: list[str] = []
        self.bench.create(
            snapshot_interval=1000,
            guarantee=self.random.choice([Guarantee.EXACTLY_ONCE, Guarantee.AT_LEAST_ONCE]),
        )

    def live(self, steps: int) -> list[int]:
        """So many things happen; then the source ends, and what was committed is given."""
        events: list[Callable[[], object]] = [
            self.give,
            self.give,
            self.pass_time,
            self.pass_time,
            self.fail,
            self.fail_to_commit,
            self.reopen,
            self.export,
            lambda: self.bench.named.get("j").suspend(PATIENCE),
            lambda: self.bench.named.get("j").resume(),
            lambda: self.bench.named.get("j").restart(PATIENCE),
        ]
        for _ in range(steps):
            event = self.random.choice(events)
            self.log.append(getattr(event, "__name__", "?"))
            with suppress(Error):
                event()
        self.world.failures.clear()
        self.world.commit_failures.clear()
        self.world.give(self.world.limit, ends=True)
        assert eventually(self.ends, PATIENCE), (self.bench.named.all(), self.log)
        self.bench.close()
        return self.world.rows

    def give(self) -> None:
        self.world.give(self.world.limit + self.random.randrange(5))

    def pass_time(self) -> None:
        self.bench.clock.advance(self.random.randrange(1, 3 * SECOND))

    def fail(self) -> None:
        self.world.fail(
            self.random.choice(
                [OperationalError("down"), OperationalError("down"), DataError("bad value")]
            )
        )

    def fail_to_commit(self) -> None:
        self.world.commit_failures.append(OperationalError("the sink is down"))

    def reopen(self) -> None:
        self.bench.close()
        self.bench = Bench(self.folder, self.world)

    def export(self) -> None:
        self.bench.named.get("j").export_snapshot("s", PATIENCE)

    def ends(self) -> bool:
        """Helps the job on until it has ended."""
        job = self.bench.named.get("j")
        if job.status is JobStatus.SUSPENDED:
            job.resume()
        self.bench.clock.advance(SECOND)
        return job.status is JobStatus.COMPLETED


@pytest.mark.parametrize("seed", some(range(25), 2))
def test_each_number_is_committed_once(seed: int, tmp_path: Path) -> None:
    life = Life(seed, tmp_path)
    assert life.live(30) == list(range(life.world.limit)), life.log
