"""Tables of files are read on from where a snapshot was taken, whatever files came since."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import runnel
from runnel.connector import END, ScanRequest, SourcePartition
from runnel.connectors.files.table import FileSource, FileTable
from runnel.expressions.context import EvaluationContext
from runnel.processor import JobContext
from runnel.processors.sources.scan_state import SavedPartition, ScanShare, named

CONTEXT = JobContext(1, EvaluationContext(), lambda: 0)


def write(path: Path, first: int, rows: int) -> None:
    table = pa.table({"x": list(range(first, first + rows))})
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        pa.parquet.write_table(table, path, row_group_size=1000)


def source(folder: Path, kind: str) -> FileSource:
    with runnel.connect() as connection:
        connection.execute(
            f"CREATE MAPPING f TYPE File OPTIONS ('path'='{folder}', 'format'='{kind}')"
        )
        table = connection._database.catalog.snapshot.get("f").table  # type: ignore[union-attr]
        assert isinstance(table, FileTable)
        found = table.scan(ScanRequest((0,)))
        assert isinstance(found, FileSource)
        return found


def share(read_from: FileSource) -> ScanShare:
    by_name = named(read_from.split(CONTEXT))
    return ScanShare(read_from, CONTEXT, by_name, frozenset(by_name))


def some(partition: SourcePartition, batches: int) -> list[int]:
    """What so many reads give."""
    values: list[int] = []
    for _ in range(batches):
        item = partition.read()
        if item is END:
            break
        if isinstance(item, pa.RecordBatch):
            values += item.column(0).to_pylist()
    return values


def saved(name: str, partition: SourcePartition) -> SavedPartition:
    return SavedPartition(name, json.dumps(partition.position()), is_begun=True)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("reads", [0, 1, 2, 3])
def test_what_was_read_is_not_read_again(
    tmp_path: Path, kind: str, reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runnel.connectors.files.table.GATHERED_ROWS", 1500)
    for number in range(3):
        write(tmp_path / f"{number}.{kind}", number * 2000, 2000)
    begun = share(source(tmp_path, kind))
    before = [some(partition, reads) for partition in begun.partitions]
    state = [
        saved(name, partition)
        for name, partition in zip(begun.names, begun.partitions, strict=True)
    ]
    write(tmp_path / f"0a.{kind}", 100_000, 2000)  # not what the job began with
    again = share(source(tmp_path, kind)).restored(state, 0, 1)
    after = [some(partition, 100) for _, partition, _ in again]
    for partition in (*begun.partitions, *(partition for _, partition, _ in again)):
        partition.close()
    assert sorted(value for values in (*before, *after) for value in values) == list(range(6000))
    assert reads == 0 or sum(map(len, before)) >= 1500


def test_a_restored_position_is_that_which_was_saved(tmp_path: Path) -> None:
    write(tmp_path / "0.csv", 0, 5000)
    begun = share(source(tmp_path, "csv"))
    some(begun.partitions[0], 1)
    state = [saved(begun.names[0], begun.partitions[0])]
    ((name, partition, _),) = share(source(tmp_path, "csv")).restored(state, 0, 1)
    assert saved(name, partition) == state[0]
    for item in (*begun.partitions, partition):
        item.close()


def test_ended_partitions_stay_so(tmp_path: Path) -> None:
    write(tmp_path / "0.csv", 0, 10)
    begun = share(source(tmp_path, "csv"))
    state = [SavedPartition(begun.names[0], is_begun=True, is_ended=True)]
    assert begun.restored(state, 0, 1) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: write(path, 0, 9), "was changed after a job has read it in part"),
        (lambda path: path.unlink(), "is gone, which a job has read in part"),
    ],
)
def test_a_file_that_changed_is_told(tmp_path: Path, change: Any, message: str) -> None:
    write(tmp_path / "0.csv", 0, 10)
    write(tmp_path / "1.csv", 0, 10)
    begun = share(source(tmp_path, "csv"))
    state = [saved(begun.names[0], begun.partitions[0])]
    change(tmp_path / "0.csv")
    with pytest.raises(runnel.OperationalError, match=message):
        share(source(tmp_path, "csv")).restored(state, 0, 1)


def test_a_source_without_positions_is_not_read_twice(tmp_path: Path) -> None:
    with runnel.connect() as connection:
        connection.execute(
            f"CREATE MAPPING f (x BIGINT) TYPE File OPTIONS ('path'='{tmp_path}', 'format'='csv', "
            "'onError'='skip')"
        )
        table = connection._database.catalog.snapshot.get("f").table  # type: ignore[union-attr]
        lenient = table.scan(ScanRequest((0,)))
    write(tmp_path / "0.csv", 0, 10)
    begun = share(lenient)
    assert not begun.is_lasting
    with pytest.raises(
        runnel.OperationalError, match="can't be read again from where the snapshot was taken"
    ):
        begun.restored([SavedPartition(begun.names[0], None, is_begun=True)], 0, 1)
