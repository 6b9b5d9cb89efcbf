"""Copies of a folder as a process leaves it that is killed: one before each step that is done to
its files, to be opened later.

A copy is of one moment: meanwhile this process holds Python's lock, and Java stands still. Steps
are changes of names and syncs by this process, renames by Hadoop's file system, and transactions of
the libraries that write files themselves; batches of jobs are written one after the other, so that
no library is in the middle of something while another one's step is copied.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Event, RLock
from time import monotonic, sleep
from typing import Any

import pytest

from runnel.connectors.duckdb.sink import DuckDBSink
from runnel.connectors.lake.delta.commit import DeltaTarget
from runnel.connectors.lake.iceberg.commit import IcebergTarget
from runnel.connectors.spark.jobs.sink import JobSink
from runnel.connectors.spark.sink import AppendSink, FileSystem

NAMES = ("rename", "replace", "link", "unlink", "remove", "mkdir", "rmdir")
SYNCS = ("fsync", "fdatasync")
PARTS: tuple[tuple[type, tuple[str, ...]], ...] = (
    (JobSink, ("__init__", "write", "_record")),
    (FileSystem, ("move", "delete")),
    (DuckDBSink, ("_run", "_transact")),
    (DeltaTarget, ("commit",)),
    (IcebergTarget, ("_commit",)),
    (AppendSink, ("_append",)),
)
"""What is a step before and behind it."""
STAGED, COUNTED, WRITTEN = "staged", "counted", "written"
"""What a batch of a job is: staged in the sink; counted, too, as its number and token are kept;
written, unknown to Spark."""


@dataclass(frozen=True)
class Image:
    """`before`: the step that was to be next."""

    place: Path
    number: int
    before: str

    def __str__(self) -> str:
        return f"image {self.number}, before {self.before}"


class Images:
    """Those of one folder. `most`: so many, of steps that a seed chooses; None: all that differ
    from the one before, from when there is something by the pattern `since`."""

    def __init__(
        self,
        folder: Path,
        into: Path,
        java: int,
        most: int | None,
        *,
        seed: int = 0,
        since: str = "",
    ) -> None:
        self._folder = folder
        self._into = into
        self._java = java
        self._most = most
        self._random = Random(seed)
        self._since = since
        self._last = ""
        self._turn = RLock()
        self.is_on = False
        self.steps = 0
        self.kept: list[Image] = []
        into.mkdir()

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """From now on steps are seen, and images taken while `is_on`."""
        for name in (*NAMES, *SYNCS):
            patch.setattr(os, name, self._seen(getattr(os, name), name))
        for kind, names in PARTS:
            for name in names:
                patch.setattr(
                    kind, name, self._around(getattr(kind, name), f"{kind.__name__}.{name}")
                )

    def _seen(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def seen(*arguments: Any, **options: Any) -> Any:
            # shutil.rmtree names files within an open folder; what a descriptor is of can't be seen
            # from it.
            if name in SYNCS or options or str(arguments[0]).startswith(str(self._folder)):
                where = "" if name in SYNCS else f" {Path(str(arguments[0])).name}"
                self._step(name + where)
            return function(*arguments, **options)

        return seen

    def _around(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def around(*arguments: Any, **options: Any) -> Any:
            with self._turn:
                self._step(name)
                found = function(*arguments, **options)
                self._step(f"the end of {name}")
                return found

        return around

    def _step(self, what: str) -> None:
        # Another thread may wait for a lock that this one holds.
        if not self.is_on or not self._turn.acquire(blocking=False):
            return
        self.is_on = False  # what is done to images is no step
        try:
            if self._since and not any(self._folder.glob(self._since)):
                return
            self._since = ""
            self.steps += 1
            slot = self._slot()
            if slot is None:
                return
            image = Image(self._into / str(self.steps), self.steps, what)
            copy(self._folder, image.place, self._java)
            if self._most is None:
                digest = digest_of(image.place)
                if digest == self._last:
                    shutil.rmtree(image.place)
                    return
                self._last = digest
            if slot < len(self.kept):
                shutil.rmtree(self.kept[slot].place)
                self.kept[slot] = image
            else:
                self.kept.append(image)
        finally:
            self.is_on = True
            self._turn.release()

    def _slot(self) -> int | None:
        """Where this step's image goes; each step has the same chance to stay."""
        if self._most is None or len(self.kept) < self._most:
            return len(self.kept)
        slot = self._random.randrange(self.steps)
        return slot if slot < self._most else None


class Held:
    """Jobs that wait for each other, each at a place of its own in a batch, so that one image has
    all of them there.

    `places`: by the name of the sink, which is STAGED, COUNTED or WRITTEN; jobs over streams
    (`s_…`) are held in a batch that isn't their first.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = dict(places)
        self._awaited = set(places)
        self._all_there, self._may_go = Event(), Event()

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """From now on they wait."""
        keep, write = JobSink._record, JobSink.write

        def held_keep(sink: JobSink, number: int, token: Any) -> None:
            self._pass(sink, STAGED, number)
            keep(sink, number, token)
            self._pass(sink, COUNTED, number)

        def held_write(sink: JobSink, number: int, frame: Any) -> bool:
            found = write(sink, number, frame)
            if found:
                self._pass(sink, WRITTEN, number)
            return found

        patch.setattr(JobSink, "_record", held_keep)
        patch.setattr(JobSink, "write", held_write)

    def _pass(self, sink: JobSink, place: str, number: int) -> None:
        name = sink._write.table.name
        if self._places.get(name) != place or (name.startswith("s_") and number == 1):
            return
        self._awaited.discard(name)
        if not self._awaited:
            self._all_there.set()
        assert self._may_go.wait(280), f"no image was taken while {name} waited"

    def image(self, folder: Path, target: Path, java: int) -> Image:
        """That of all of them, which go on then and aren't held any more."""
        try:
            assert self._all_there.wait(240), f"not come to their places: {self._awaited}"
            copy(folder, target, java)
        finally:
            self._may_go.set()
        return Image(
            target, 1, ", ".join(f"{name} is {place}" for name, place in self._places.items())
        )


def copy(folder: Path, target: Path, java: int) -> None:
    """A copy of one moment."""
    os.kill(java, signal.SIGSTOP)
    try:
        until = monotonic() + 5
        while not stands_still(java):
            assert monotonic() < until, "Java goes on"
            sleep(0.0002)  # nobody tells of it
        # A call that keeps Python's lock, so that no other thread goes on.
        failed = ctypes.PyDLL(None).system(f"cp -a '{folder}' '{target}'".encode())
        assert not failed, f"{target} can't be made"
    finally:
        os.kill(java, signal.SIGCONT)


def stands_still(process: int) -> bool:
    """Whether a stop has come through to all its threads, as far as that can be seen."""
    try:
        states = [
            stat.read_text().rpartition(")")[2].split()[0]
            for stat in Path(f"/proc/{process}/task").glob("*/stat")
        ]
    except OSError:
        return False  # a thread has just ended
    return all(state in "TtZX" for state in states)


def digest_of(folder: Path) -> str:
    """What is equal for folders of the same content."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found.update(str(path.relative_to(folder)).encode())
        if path.is_file():
            found.update(path.read_bytes())
    return found.hexdigest()
