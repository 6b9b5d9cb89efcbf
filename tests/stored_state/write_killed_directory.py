"""Writes the directory of a killed process: `write_directory` runs this module as a process.

    python -m tests.stored_state.write_killed_directory folder

When the process ends at once, each sink has staged rows of a completed snapshot, not committed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from threading import Event

from runnel.processors.sinks.durable_write import DurableWrite
from runnel.processors.sources.durable_malformed_records import DurableMalformedRecordPartition
from tests.stored_state.inputs import BEFORE, write_part
from tests.stored_state.queries import JOBS, KILLED
from tests.stored_state.reading import wait_until_read
from tests.stored_state.write_directory import create_jobs, opened, prepare
from tests.waiting import eventually


def hold_commits(is_held: Event, held: set[str]) -> None:
    """Once the event is set, sinks that have staged rows add their names to `held`, and do not
    commit."""
    commit, committed = DurableWrite.commit, DurableMalformedRecordPartition.committed

    def held_commit(self: DurableWrite, snapshot_id: int, success: bool) -> bool:
        if is_held.is_set() and success and self._staged:
            held.add(self.context.vertex)
            return False
        return commit(self, snapshot_id, success)

    def held_committed(self: DurableMalformedRecordPartition, is_safe: bool) -> None:
        if is_held.is_set() and is_safe and self._staged:
            held.add("malformed")
        else:
            committed(self, is_safe)

    DurableWrite.commit = held_commit  # type: ignore[method-assign]
    DurableMalformedRecordPartition.committed = held_committed  # type: ignore[method-assign]


def write_and_die(root: Path) -> None:
    prepare(root)
    jobs = [job for job in JOBS if job.name in KILLED]
    is_held, held = Event(), set()
    hold_commits(is_held, held)
    connection = opened()
    write_part(root / "in", BEFORE[0])
    create_jobs(connection, jobs)
    for job in jobs:
        wait_until_read(connection, job, BEFORE[:1], has_tables=True)
        connection.execute(f"ALTER JOB {job.name} SUSPEND")
        connection.execute(f"ALTER JOB {job.name} OPTIONS ('snapshotIntervalMillis' = '1') RESUME")
    is_held.set()
    write_part(root / "in", BEFORE[1])
    assert eventually(lambda: held >= {"malformed", *(f"write {job.name}" for job in jobs)}), held
    os._exit(0)


if __name__ == "__main__":
    write_and_die(Path(sys.argv[1]))
