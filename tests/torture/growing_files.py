"""A followed folder of several files that all grow while jobs read it.

Each file has its own pace and its rows in order of event time, so with a maximum lag of 0 a row is
late if the watermark of one file is used for another. No file is the next one of another: all are
created before the first is changed.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from threading import Event, Thread

FOLDER = "files"
FILES = 5
ROWS = 1500
"""Rows of each file; the last is far after the others, so that all windows before it end."""

START = datetime(2024, 1, 1)
LONGEST = 6.0
"""Maximum time, in seconds, in which the files grow to their full size."""


def prepare(folder: Path) -> None:
    """Write the complete files."""
    folder.mkdir()
    for number in range(FILES):
        at = START
        with (folder / f"{number}.json").open("w") as file:
            for seq in range(ROWS):
                last = seq == ROWS - 1
                at = START + timedelta(days=1) if last else at + _step(number, seq)
                row = {"f": number, "seq": seq, "at": at.isoformat(sep=" ")}
                file.write(json.dumps(row) + "\n")


def _step(number: int, seq: int) -> timedelta:
    return timedelta(milliseconds=(seq * 37 + number * 11) % (40 + 50 * number))


def mapping(folder: Path, *, streams: bool) -> str:
    """The statement that creates the mapping of the files."""
    follow = ", 'follow' = 'true', 'pollMillis' = '20', 'idleTimeoutMillis' = '0'"
    return (
        "CREATE MAPPING IF NOT EXISTS files (f BIGINT, seq BIGINT, at TIMESTAMP, "
        "WATERMARK FOR at AS at) TYPE File OPTIONS "
        f"('format' = 'json', 'path' = '{folder / FOLDER}'{follow if streams else ''})"
    )


class Writer:
    """Appends to copies of complete files, on a thread, until they are complete.

    Chunks end anywhere in a line. All is drawn from `random`.
    """

    def __init__(self, source: Path, target: Path, random: Random) -> None:
        self._contents = [path.read_bytes() for path in sorted(source.iterdir())]
        self._paths = [target / path.name for path in sorted(source.iterdir())]
        self._written = [0] * len(self._paths)
        self._random = random
        self._stopped = Event()
        target.mkdir()
        for path in self._paths:
            path.touch()
        for number in range(len(self._paths)):
            self._append(number, 10)
        self._thread = Thread(target=self._run, name="writer of files", daemon=True)
        self._thread.start()

    def _append(self, number: int, size: int) -> None:
        start = self._written[number]
        chunk = self._contents[number][start : start + size]
        with self._paths[number].open("ab") as file:
            file.write(chunk)
        self._written[number] += len(chunk)

    def _run(self) -> None:
        total = sum(map(len, self._contents))
        pause = self._random.uniform(0.001, 0.03)
        size = max(1, int(total * pause / self._random.uniform(0.5, LONGEST)))
        while left := [i for i, data in enumerate(self._contents) if self._written[i] < len(data)]:
            self._append(self._random.choice(left), self._random.randrange(1, 2 * size + 1))
            if self._stopped.wait(pause):
                return

    def stop(self) -> None:
        """End the thread, also before the files are complete."""
        self._stopped.set()
        self._thread.join()
