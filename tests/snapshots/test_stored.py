"""Snapshots of earlier versions are restored, and jobs go on from them exactly."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from runnel.snapshots.file_store import FileSnapshotStore
from runnel.testing.rows import rows_of
from tests.snapshots.crashes import dag_of
from tests.snapshots.stored import COMMITTED, FOLDER, QUERIES, plan_of, run


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("name", QUERIES)
def test_a_stored_snapshot_is_restored(tmp_path: Path, name: str, parallelism: int) -> None:
    folder = tmp_path / name
    shutil.copytree(FOLDER / name, folder)
    store = FileSnapshotStore(folder)
    assert store.completed == 1
    before = rows_of(list(store.read(1, COMMITTED)))
    with plan_of(name) as plan:
        names = set(dag_of(plan, parallelism).vertices)
        assert set(store.vertices(1)) - {COMMITTED} <= names, "what a vertex is called may not change"
        expected = run(dag_of(plan, 2), None)
        after = run(dag_of(plan, parallelism), store)
    assert 0 < len(before) < len(expected)
    assert sorted([*before, *after], key=repr) == expected
