"""Directories that earlier code wrote: this code opens them, and their jobs resume exactly."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import runnel
from runnel import processors
from runnel.expressions.aggregates.states import AggregateState
from runnel.processor import Processor, Stateful
from runnel.processors.grouping.aggregate import AggregateProcessor
from runnel.processors.grouping.group_limit import GroupLimitProcessor
from runnel.processors.grouping.set_operation import SetOperationProcessor
from runnel.processors.live.changelog import ChangelogProcessor
from runnel.processors.live.live_processor import LiveProcessor
from runnel.processors.live.views.input import ViewInputProcessor
from runnel.processors.live.views.publish import ViewProcessor
from runnel.processors.over.window import WindowProcessor
from runnel.processors.sessions.sessions_at_end import SessionsAtEnd
from runnel.processors.sorting.sort import SortProcessor
from runnel.processors.spool import SpoolProcessor
from runnel.processors.stateful.until_watermark import RowCompletion
from runnel.processors.stream_joins.stream_join import StreamJoin
from runnel.relation.state_identity import Form
from tests.effort import some
from tests.stored_state.continuing import (
    ARCHIVE,
    EXPECTED,
    KILLED_ARCHIVE,
    continued,
    continued_after_kill,
    described,
)
from tests.stored_state.queries import (
    DROPPED,
    ENDING,
    JOBS,
    KILLED,
    NOT_ALTERED,
    RUNNING,
    StoredJob,
)
from tests.stored_state.reading import PATIENCE
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/cwd").exists(), reason="stored paths begin with /proc/self/cwd"
)

WITHOUT_STORED_STATE: dict[type[Processor], str] = {
    AggregateProcessor: "it ends before the first snapshot",
    GroupLimitProcessor: "it ends before the first snapshot",
    SpoolProcessor: "it ends before the first snapshot",
    SessionsAtEnd: "it ends before the first snapshot",
    SetOperationProcessor: "it ends before the first snapshot",
    SortProcessor: "it ends before the first snapshot",
    WindowProcessor: "it ends before the first snapshot",
    LiveProcessor: "it came after the directories were written",
    ChangelogProcessor: "it came after the directories were written",
    ViewInputProcessor: "it came after the directories were written",
    ViewProcessor: "it came after the directories were written",
}
"""Processors that can restore state, and have none in the stored directories: why."""


OF_HAND_BUILT_DAGS = f"{processors.__name__}.library"
"""The jobs in these stored directories are jobs of queries; hand-built jobs are in
`tests/stored_state/hand_built`."""

LATER_STATES = {"Mapped"}
"""The states of aggregates that came after the directories were written."""


@cache
def expected() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(EXPECTED.read_text("utf-8"))
    return found


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the directory and its files: the working directory."""
    return unpacked(ARCHIVE, tmp_path, monkeypatch)


def unpacked(name: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with tarfile.open(name) as archive:
        archive.extractall(folder, filter="data")
    monkeypatch.chdir(folder)
    return folder


def test_the_directory_opens(root: Path) -> None:
    with runnel.connect("directory") as connection:
        for name in RUNNING:
            job = connection.job(name)
            assert eventually(lambda job=job: job.status is runnel.JobStatus.RUNNING), (
                name,
                job.error,
            )
        found = described(connection)
    assert {name: rows for name, rows in found.items() if rows != expected()[name]} == {}
    assert found.keys() == expected().keys() - {"written"}


@contextmanager
def noted(kinds: Iterable[type[Any]], method: str) -> Iterator[set[type[Any]]]:
    """The classes on whose instances a method is called meanwhile."""
    found: set[type[Any]] = set()

    def noting(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *arguments: Any, **named: Any) -> Any:
            found.add(type(self))
            return original(self, *arguments, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for kind in kinds:
            patch.setattr(kind, method, noting(getattr(kind, method)))
        yield found


def stateful_processors() -> list[type[Processor]]:
    """The processors that override `restore_snapshot`."""
    for module in pkgutil.walk_packages(processors.__path__, f"{processors.__name__}."):
        importlib.import_module(module.name)
    return [
        kind
        for kind in subclasses(Processor)
        if issubclass(kind, Stateful) and kind.restore_snapshot is not Stateful.restore_snapshot
    ]


def subclasses(kind: type[Processor]) -> Iterator[type[Processor]]:
    for item in kind.__subclasses__():
        if item.__module__.startswith(processors.__name__):
            yield item
        yield from subclasses(item)


@pytest.mark.parametrize(("parallelism", "alters"), some([(3, True), (2, False), (1, True)], 3))
def test_its_jobs_go_on(root: Path, parallelism: int, alters: bool) -> None:
    states = AggregateState.__subclasses__()
    with (
        noted(stateful_processors(), "restore_snapshot") as restored,
        noted(states, "__init__") as made,
        noted(StreamJoin.__subclasses__(), "restored") as joins,
        noted(RowCompletion.__subclasses__(), "results") as completions,
    ):
        found = continued(root, parallelism, alters)
    assert {name: rows for name, rows in found.items() if rows != expected()["written"][name]} == {}
    assert found.keys() == expected()["written"].keys()
    leaves = {
        kind
        for kind in stateful_processors()
        if not kind.__subclasses__() and not kind.__module__.startswith(OF_HAND_BUILT_DAGS)
    }
    assert leaves - restored == WITHOUT_STORED_STATE.keys()
    assert joins == set(StreamJoin.__subclasses__())
    assert completions == set(RowCompletion.__subclasses__())
    assert {kind.__name__ for kind in set(states) - made} <= LATER_STATES, (
        "the stored directories don't have these states. The directories are never written again: "
        "add the name of a new class to LATER_STATES in tests/stored_state/test_stored_directory.py"
    )


def test_what_a_killed_process_left_is_committed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = unpacked(KILLED_ARCHIVE, tmp_path, monkeypatch)
    staged = {path.parent.name for path in root.glob("out/*/.*.*")}
    assert staged >= {"late", "numbers", "into_delta", "into_parquet", "diverted", "malformed"}
    found = continued_after_kill(root)
    assert {name: rows for name, rows in found.items() if rows != expected()["written"][name]} == {}
    assert found.keys() > set(KILLED)


def test_the_same_query_keeps_all_state(root: Path) -> None:
    with runnel.connect("directory") as connection:
        for job in (*JOBS, *ENDING):
            if job.name not in (*DROPPED, *NOT_ALTERED):
                lines = state_lines(connection, job)
                assert len(lines) > 1
                assert [line for line in lines if not line.endswith(": kept")] == []


def state_lines(connection: runnel.Connection, job: StoredJob) -> list[str]:
    """The lines of EXPLAIN ALTER JOB about the steps of a query."""
    cursor = connection.execute(
        f"EXPLAIN ALTER JOB {job.name} AS {job.sql}", job.arguments, timeout=PATIENCE
    )
    lines = [row[0] for row in cursor.fetchall()]
    start = lines.index("State") + 1
    end = lines.index("", start) if "" in lines[start:] else len(lines)
    return lines[start:end]


def test_stored_state_is_read_as_rows(root: Path) -> None:
    tables = {
        "JOB_STATE('numbers', 'accumulate')": 5,
        "JOB_STATE('over_ranges', 'window')": 17,
        "JOB_STATE('rows_of_sessions', 'session')": 15,
        "JOB_STATE('within', 'join')": 18,
        "JOB_STATE('with_table', 'join')": 3,
        "SNAPSHOT_STATE('of_numbers', 'accumulate')": 6,
    }
    with runnel.connect("directory") as connection:
        found = {
            name: connection.execute(f"SELECT COUNT(*) FROM TABLE({name})").fetchone()[0]
            for name in tables
        }
    assert found == tables


def test_each_form_of_state_is_stored(root: Path) -> None:
    records = [path.read_text("utf-8") for path in root.glob("directory/jobs/*/job.json")]
    forms = {
        form for record in records for form in re.findall(r'\\"form\\": \\"([a-z ]+)\\"', record)
    }
    assert forms == {form.value for form in Form}
