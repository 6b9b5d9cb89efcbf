"""The process that is killed: opens the directory, makes what isn't there yet, and waits until all
jobs have given everything.

    python -m tests.torture.worker FOLDER CASES PARALLELISM FAULT STATEMENTS

What the sinks hold then is written to FOLDER/result.json. PARALLELISM is that of the jobs, FAULT
the number of the file operation that it dies at (0: none), STATEMENTS the seed of the statements
that change the jobs meanwhile (0: none).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import runnel
from tests.torture import cases, disturbance, fault_points

PATIENCE = 120.0


def main(folder: Path, names: str, parallelism: int, fault: int, statements: int) -> None:
    if fault:
        fault_points.die_at(fault, folder)
    chosen = cases.named(names)
    wanted = json.loads((folder / "wanted.json").read_text())
    until = time.monotonic() + PATIENCE
    with runnel.connect(folder / "directory", query_parallelism=parallelism) as connection:
        for statement in cases.sources(folder, streams=True):
            connection.execute(statement)
        for case in chosen:
            connection.execute(cases.sink(case, folder))
            disturbance.bring_back(connection, case)
        (folder / "ready").touch()
        if statements:
            disturbance.disturb(connection, chosen, Random(statements))
        for case in chosen:
            _wait(connection, case, wanted[case.query.name], until)
        result = {
            case.name: {
                name: cases.rows(connection, query) for name, query in cases.outputs(case).items()
            }
            for case in chosen
        }
        jobs = _jobs(connection)
    unfinished = folder / "result.json.new"
    unfinished.write_text(json.dumps({"rows": result, "jobs": jobs, "traces": _traces(folder)}))
    unfinished.rename(folder / "result.json")


def _wait(connection: runnel.Connection, case: cases.Case, wanted: int, until: float) -> None:
    """Until the job is complete; one that never is has given everything when so many rows are
    there, and is suspended then, so that its last snapshot would commit what is too much."""
    job = connection.job(case.name)
    if not case.query.is_endless:
        job.join(max(1.0, until - time.monotonic()))
        return
    counting = connection.execute
    while counting(f"SELECT COUNT(*) FROM {case.name}").fetchone() < (wanted,):
        if time.monotonic() > until:
            raise TimeoutError(f"job {case.name} is not done: {_jobs(connection)}")
        time.sleep(0.05)  # a sink tells nobody that it has got rows
    if job.status is runnel.JobStatus.RUNNING:
        job.suspend(PATIENCE)


def _jobs(connection: runnel.Connection) -> list[dict[str, Any]]:
    cursor = connection.execute("SHOW JOBS FULL")
    names = [column[0] for column in cursor.description or ()]
    shown = ("name", "status", "restarts", "last_error")
    return [{name: row[names.index(name)] for name in shown} for row in cursor.fetchall()]


def _traces(folder: Path) -> list[str]:
    """Unfinished files that nobody will finish."""
    return [str(path.relative_to(folder)) for path in folder.rglob(".runnel-*")]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
