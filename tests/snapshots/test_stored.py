"""Snapshots of earlier versions are restored, and jobs go on from them exactly."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from runnel.named_jobs.state_evolution.adapted_store import AdaptedSnapshots
from runnel.named_jobs.state_evolution.compatibility import StateOutcome, state_outcomes
from runnel.planner.identity.vertices import state_signatures
from runnel.snapshots.file_store import FileSnapshotStore
from runnel.testing.rows import rows_of
from tests.effort import crossed
from tests.snapshots.crashes import dag_of
from tests.snapshots.stored import COMMITTED, FOLDER, QUERIES, plan_of, run


@pytest.mark.parametrize(("name", "parallelism"), crossed(QUERIES, [1, 2, 3]))
def test_a_stored_snapshot_is_restored(tmp_path: Path, name: str, parallelism: int) -> None:
    folder = tmp_path / name
    shutil.copytree(FOLDER / name, folder)
    store = FileSnapshotStore(folder)
    assert store.completed == 1
    before = rows_of(list(store.read(1, COMMITTED)))
    with plan_of(name) as plan:
        names = set(dag_of(plan, parallelism).vertices)
        assert set(store.vertices(1)) - {COMMITTED} <= names, (
            "what a vertex is called may not change"
        )
        expected = run(dag_of(plan, 2), None)
        after = run(dag_of(plan, parallelism), store)
    assert 0 < len(before) < len(expected)
    assert sorted([*before, *after], key=repr) == expected


def meanings(plan: Any) -> dict[str, str]:
    return {
        vertex: meaning.encode() for vertex, meaning in state_signatures(plan.physical, 2).items()
    }


OTHER_WINDOWS: list[tuple[str, dict[str, str], bool]] = [
    ("hop", {"HOP": "TUMBLE", "20, 5": "20"}, True),
    ("hop", {"20, 5": "20, 10"}, True),
    ("tumble", {"TUMBLE": "HOP", "), 10)": "), 20, 10)"}, False),
    ("tumble", {"), 10)": "), 25)"}, False),
    ("session", {"), 6)": "), 11)"}, False),
]


@pytest.mark.parametrize(("case", "parallelism"), crossed(OTHER_WINDOWS, [1, 3]))
def test_a_stored_snapshot_is_for_other_windows(
    tmp_path: Path, case: tuple[str, dict[str, str], bool], parallelism: int
) -> None:
    """What comes of windows that begin after all that was read is what the other query gives from
    the beginning; where new windows consist of whole old ones, also of those before."""
    name, changes, is_exact = case
    folder = tmp_path / name
    shutil.copytree(FOLDER / name, folder)
    store = FileSnapshotStore(folder)
    text = QUERIES[name]
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    with plan_of(name) as plan:
        before = meanings(plan)
    with plan_of(text) as plan:
        dag, after = dag_of(plan, parallelism), meanings(plan)
        states = set(store.vertices(1)) - {COMMITTED}
        found = state_outcomes(states, before, after, dag)
        assert StateOutcome.RECOMBINED in {
            item.outcome for item in found
        } and StateOutcome.REFUSED not in {item.outcome for item in found}
        result = run(dag, store, AdaptedSnapshots(store, found, (before, after), dag))
        expected = run(dag_of(plan, 2), None)
    last = "combine" if "combine" in states else "aggregate"
    watermarks = [
        batch for batch in store.read(1, last) if batch.schema.names[0].endswith("watermark")
    ]
    watermark = min(batch.column(batch.num_columns - 1)[0].as_py() for batch in watermarks)
    place = plan.fields.index(next(field for field in plan.fields if field.name == "window_end"))
    limit = watermark if is_exact else watermark + 60
    assert [row for row in result if row[place] > limit] == [
        row for row in expected if row[place] > limit
    ]
    assert any(row[place] > limit for row in expected)
