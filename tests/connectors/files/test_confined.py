"""Files within bounds: every way in which a File mapping opens one looks at the links of that
moment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import runnel
from runnel.access import access_of
from runnel.connector import (
    MappingDefinition,
    ReadableTable,
    ScanRequest,
    SinkRequest,
    SourcePartition,
    WritableTable,
    WriteMode,
)
from runnel.connectors.files.connector import FileConnector
from runnel.expressions.context import EvaluationContext
from runnel.processor import JobContext

DATA = pa.table({"a": [1, 2, 3]})


def written(path: Path, kind: str) -> None:
    match kind:
        case "parquet":
            pyarrow.parquet.write_table(DATA, path)
        case "arrow":
            pyarrow.feather.write_feather(DATA, str(path), compression="uncompressed")
        case "csv":
            pyarrow.csv.write_csv(DATA, path)
        case "json":
            path.write_text('{"a": 1}\n{"a": 2}\n{"a": 3}\n')
        case "avro":
            with runnel.connect() as connection:
                options = f"OPTIONS ('path' = '{path}', 'format' = 'avro')"
                connection.execute(f"CREATE MAPPING m (a BIGINT) TYPE File {options}")
                connection.execute("INSERT INTO m VALUES (1), (2), (3)")
        case _:
            path.write_text("1\n2\n3\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("root", "outside"):
        (tmp_path / name).mkdir()
    return tmp_path / "root"


def table_of(root: Path, path: Path, **options: str) -> ReadableTable:
    definition = MappingDefinition(
        "m", (), {"path": str(path), **options}, access=access_of([root])
    )
    made = FileConnector().open(definition)
    assert isinstance(made, ReadableTable)
    return made


def partitions(table: ReadableTable) -> Sequence[SourcePartition]:
    return table.scan(ScanRequest((0,))).split(JobContext(0, EvaluationContext(), lambda: 0))


def swap(path: Path) -> None:
    """Puts a link that leads out in the place of a file."""
    outside = path.parent.parent / "outside" / path.name
    path.rename(outside)
    path.symlink_to(outside)


KINDS = ["parquet", "arrow", "csv", "json", "avro", "txt"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"onError": "skip"}, {"follow": "true"}])
def test_each_format_looks_before_it_reads(root: Path, kind: str, options: dict[str, str]) -> None:
    path = root / f"f.{kind}"
    written(path, kind)
    try:
        table = table_of(root, path, **options)
    except runnel.Error as error:
        assert "onError" in str(error)  # formats that have no malformed records
        return
    (first,) = partitions(table)
    if "follow" not in options:
        batch = first.read()
        assert isinstance(batch, pa.RecordBatch)
        assert batch.num_rows == 3
    first.close()
    (second,) = partitions(
        table
    )  # the look at the path is before the swap, the opening is after it
    swap(path)
    with pytest.raises(runnel.ProgrammingError, match="outside of what may be reached"):
        for _ in range(9):
            second.read()
    second.close()
    with pytest.raises(runnel.ProgrammingError, match="outside of what may be reached"):
        partitions(table)[0].read()


def test_a_position_of_an_earlier_process_has_the_bounds_of_now(root: Path) -> None:
    for number in range(3):
        written(root / f"{number}.csv", "csv")
    table = table_of(root, root)
    context = JobContext(0, EvaluationContext(), lambda: 0)
    source = table.scan(ScanRequest((0,)))
    (first,) = source.split(context)
    token = first.position()
    again = source.reopen(first.identity, token, context)
    assert isinstance(again.read(), pa.RecordBatch)
    again = source.reopen(first.identity, token, context)
    swap(root / "1.csv")
    with pytest.raises(runnel.ProgrammingError, match="outside of what may be reached"):
        for _ in range(9):
            again.read()
    forged = (
        {**token, "files": [[str(root.parent / "outside/1.csv"), 1, 1]]}
        if isinstance(token, dict)
        else None
    )
    with pytest.raises(runnel.ProgrammingError, match="outside of what may be reached"):
        source.reopen(first.identity, forged, context).read()


def test_a_token_of_a_sink_names_nothing_outside(root: Path) -> None:
    definition = MappingDefinition(
        "m", (), {"path": str(root), "format": "csv"}, access=access_of([root])
    )
    written(root / "0.csv", "csv")
    table = FileConnector().open(definition)
    assert isinstance(table, WritableTable)
    sink = table.sink(SinkRequest(WriteMode.INSERT, (0,)))
    outside = root.parent / "outside"
    (outside / ".x").write_text("kept")
    to_outside, from_outside = (
        [str(root / "0.csv"), str(outside / "1.csv")],
        [str(outside / ".x"), str(root / "1.csv")],
    )
    for act, pair in (
        (sink.commit, to_outside),
        (sink.commit, from_outside),
        (sink.abort, from_outside),
    ):
        with pytest.raises(runnel.ProgrammingError, match="outside of what may be reached"):
            act({"renames": [pair]})
    assert sorted(item.name for item in outside.iterdir()) == [".x"]
    sink.close()


@pytest.mark.parametrize("rows", [0, 300_000])
def test_fragments_on_duckdb_look_before_they_read(root: Path, rows: int) -> None:
    written(root / "f.parquet", "parquet")
    with runnel.connect(allowed_paths=[root], fragment_rows=rows) as connection:
        connection.execute(f"CREATE MAPPING m TYPE File OPTIONS ('path' = '{root}/f.parquet')")
        query = "SELECT a % 2, SUM(a) FROM m GROUP BY a % 2 ORDER BY 1"
        assert connection.execute(query).fetchall() == [(0, 2), (1, 4)]
        swap(root / "f.parquet")
        with pytest.raises(runnel.ProgrammingError, match="outside of what may be reached"):
            connection.execute(query).fetchall()
