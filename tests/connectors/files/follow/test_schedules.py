"""Random schedules of writes, rotations, cuts and restarts: each row comes once.

A snapshot saves the partitions one after the other, in any order, and rows are read in between, as
barriers reach the processors of a job at different times. After a restart, rows that were read
after the position of their partition are forgotten, as a sink does.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.connectors.files.cases import written
from tests.connectors.files.follow.followers import POLL, Execution, Tokens
from tests.effort import ALL

SEEDS = range(1000) if ALL else range(40)


class Schedule:
    """Writers and one reader of a folder.

    committed: the ids of the rows before the last snapshot.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = Random(seed)
        self.folder = folder
        self.count = 0
        self.series = [f"w{number}" for number in range(self.random.randrange(1, 6))]
        self.numbers = dict.fromkeys(self.series, 0)
        self.partial: dict[Path, str] = {}
        self.committed: list[int] = []
        self.emitted: dict[str, list[int]] = {}
        self.tokens: Tokens = {}
        self.job = self.started()
        self.clock = self.job.clock

    def started(self) -> Execution:
        partitions = str(self.random.choice((1, 2, 3, 8, 64)))
        clock = getattr(self, "clock", None)
        return Execution(self.folder, clock, self.tokens, partitions=partitions)

    def current(self, series: str) -> Path:
        return self.folder / f"{series}.csv"

    def write(self) -> None:
        """Appends rows to a file; the last one may not be whole."""
        path = self.current(self.random.choice(self.series))
        if self.random.random() < 0.2:
            others = sorted(self.folder.glob("*.csv"))
            path = self.random.choice(others) if others else path
        text = self.partial.pop(path, "")
        if not path.exists():
            written(path, "id,name\n")
        for _ in range(self.random.randrange(1, 4)):
            text += f"{self.count},x{self.count}\n"
            self.count += 1
        cut = self.random.randrange(1, len(text)) if self.random.random() < 0.3 else len(text)
        with path.open("a") as file:
            file.write(text[:cut])
        if text[cut:]:
            self.partial[path] = text[cut:]

    def flush(self) -> None:
        for path, text in self.partial.items():
            with path.open("a") as file:
                file.write(text)
        self.partial.clear()

    def rotate(self) -> None:
        """Renames the file of a writer, in one of two ways; perhaps all older ones as well."""
        series = self.random.choice(self.series)
        path = self.current(series)
        if not path.exists():
            return
        if self.random.random() < 0.5:
            older = [(path, self.folder / f"{series}.1.csv")]
            while older[-1][1].exists():
                last = older[-1][1]
                older.append((last, self.folder / f"{series}.{len(older) + 1}.csv"))
            for source, target in reversed(older):
                self.rename(source, target)
        else:
            self.numbers[series] += 1
            self.rename(path, self.folder / f"{series}-{self.numbers[series]:04}.csv")
        if self.random.random() < 0.7:
            written(path, "id,name\n")

    def rename(self, source: Path, target: Path) -> None:
        source.rename(target)
        if source in self.partial:
            self.partial[target] = self.partial.pop(source)

    def read(self) -> None:
        """Reads some partitions, a few times."""
        if self.random.random() < 0.5:
            self.clock.advance(self.random.choice((POLL // 3, POLL, 3 * POLL)))
        for _ in range(self.random.randrange(1, 12)):
            self.read_one(self.random.choice(list(self.job.parts)))

    def read_one(self, name: str) -> None:
        self.emitted.setdefault(name, []).extend(self.job.read(name))

    def snapshot(self) -> None:
        """Saves each partition at another time."""
        names = list(self.job.parts)
        self.random.shuffle(names)
        tokens: Tokens = {}
        for name in names:
            tokens[name] = self.job.parts[name].position()
            self.committed += self.emitted.pop(name, [])
            if self.random.random() < 0.3:
                # Rows of partitions that were saved are after the snapshot.
                self.read()
        self.tokens = tokens

    def restart(self) -> None:
        self.job.close()
        self.emitted.clear()
        self.job = self.started()

    def settle(self) -> None:
        """Reads all there is, and saves it."""
        self.flush()
        for _ in range(4):
            for name, rows in self.job.look().items():
                self.emitted.setdefault(name, []).extend(rows)
        for name in self.job.parts:
            self.committed += self.emitted.pop(name, [])
        self.tokens = self.job.positions()

    def replace(self) -> None:
        """Deletes, truncates or replaces a file whose rows are all in the snapshot."""
        self.settle()
        files = sorted(self.folder.glob("*.csv"))
        if not files:
            return
        path, kind = self.random.choice(files), self.random.randrange(3)
        if kind == 0:
            path.unlink()
            return
        rows = range(self.count, self.count + self.random.randrange(1, 5))
        self.count = rows.stop
        text = "id,name\n" + "".join(f"{number},y{number}\n" for number in rows)
        if kind == 1:
            path.write_text(text)
        else:
            other = self.folder.parent / "other"
            other.write_text(text)
            other.replace(path)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_row_comes_once(tmp_path: Path, seed: int) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    schedule = Schedule(folder, seed)
    steps = (
        [schedule.write] * 8
        + [schedule.read] * 8
        + [schedule.rotate, schedule.snapshot, schedule.snapshot, schedule.restart]
        + [schedule.replace] * (seed % 2)
    )
    for _ in range(80):
        schedule.random.choice(steps)()
    schedule.settle()
    assert Counter(schedule.committed) == Counter(range(schedule.count))
