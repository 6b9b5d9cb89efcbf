"""Delta and Iceberg tables through Spark, as far as it goes without their packages: what their
writers are told, and that a job which repeats a commit writes its rows once. Stand-ins of both are
data sources in Python."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.connector import SinkRequest, WriteMode
from runnel.connectors.spark import options as spark_options
from runnel.connectors.spark import versioned_sink as spark_version_sink
from runnel.processor import Guarantee
from tests.spark.jobs.test_jobs import ON_SPARK, shown
from tests.spark.jobs.test_sinks import table_of

SOURCES = ("delta", "iceberg")


def writer_of(content: Any) -> Any:
    """The class of writers. It is made within a function, and so is its `content`, as what is
    travels to Spark by value."""
    from pyspark.sql.datasource import DataSourceWriter, WriterCommitMessage

    class Rows(WriterCommitMessage):
        def __init__(self, rows: list[Any]) -> None:
            self.rows = rows

    class Writer(DataSourceWriter):
        def __init__(self, options: dict[str, str]) -> None:
            self.options = options

        def write(self, iterator: Iterator[Any]) -> Any:
            return Rows([list(row) for row in iterator])

        def commit(self, messages: list[Any]) -> None:
            options = {name: value for name, value in self.options.items() if name != "path"}
            versions = content(self.options["path"])
            own = options.get("txnappid")
            before = [
                item["options"]
                for item in versions
                if own and item["options"].get("txnappid") == own
            ]
            if any(item["txnversion"] >= options["txnversion"] for item in before):
                return
            rows = [row for message in messages for row in message.rows]
            Path(self.options["path"]).mkdir(exist_ok=True)
            table = Path(self.options["path"], "table.json")
            unfinished = table.with_suffix(".new")  # others read the table meanwhile
            unfinished.write_text(json.dumps([*versions, {"options": options, "rows": rows}]))
            unfinished.rename(table)

    return Writer


def reader_of(content: Any) -> Any:
    """The class of readers, made like that of writers."""
    from pyspark.sql.datasource import DataSourceReader

    class Reader(DataSourceReader):
        def __init__(self, path: str) -> None:
            self.path = path

        def read(self, partition: Any) -> Iterator[Any]:
            path, _, snapshots = self.path.partition("#")
            for version in content(path):
                if snapshots:
                    start = "snapshot-property."
                    given = version["options"].items()
                    yield (
                        {
                            name.removeprefix(start): value
                            for name, value in given
                            if name.startswith(start)
                        },
                    )
                else:
                    yield from map(tuple, version["rows"])

    return Reader


def stand_in(name_of_it: str) -> Any:
    """A table: a file "table.json" with rows and options of each write. It passes over a write that
    has no larger number of its application, as Delta does, and reads as snapshots behind
    "#snapshots", as Iceberg's."""
    from pyspark.sql.datasource import DataSource

    def content(path: str) -> Any:
        file = Path(path, "table.json")
        return json.loads(file.read_text()) if file.exists() else []

    reader, writer = reader_of(content), writer_of(content)

    class StandIn(DataSource):
        @classmethod
        def name(cls) -> str:
            return name_of_it

        def schema(self) -> str:
            return (
                "summary map<string, string>"
                if "#" in self.options["path"]
                else "id bigint, name string"
            )

        def reader(self, schema: Any) -> Any:
            return reader(self.options["path"])

        def writer(self, schema: Any, overwrite: bool) -> Any:
            return writer(dict(self.options))

    return StandIn


def batch(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(ids, pa.int64()), pa.array([f"n{i}" for i in ids])], names=["id", "name"]
    )


@pytest.mark.parametrize("source", SOURCES)
def test_a_job_writes_its_rows_once(
    connection: runnel.Connection,
    session: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
) -> None:
    path, name = tmp_path / "t", f"like_{source}"
    # What is registered stays there for other tests, which find no "delta".
    monkeypatch.setattr(spark_options, "VERSIONED", (name,))
    monkeypatch.setattr(spark_version_sink, "SINKS", {name: spark_version_sink.SINKS[source]})
    session.dataSource.register(stand_in(name))
    connection.execute(f"""CREATE MAPPING t (id BIGINT, name VARCHAR)
        TYPE Spark OPTIONS ('format' = '{name}', 'path' = '{path}', 'mergeSchema' = 'true')""")
    table = table_of(connection, "t")
    assert table.guarantee is Guarantee.EXACTLY_ONCE
    request = SinkRequest(WriteMode.INSERT, (0, 1), "job 1/write t")
    sink = table.sink(request)
    sink.recover(())
    sink.write(batch(1, 2))
    first = sink.stage(1)
    sink.write(batch(9))
    assert not (path / "table.json").exists(), "rows wait"
    shutil.copytree(first["staging"], tmp_path / "kept")
    del sink
    for _ in range(2):
        # The process ends between the commit and the removal of what waited.
        sink = table.sink(request)
        sink.recover([first])
        assert not list(path.glob("_runnel*"))
        shutil.copytree(tmp_path / "kept", first["staging"])
    sink.recover([first])
    sink.commit(sink.stage(2))
    sink.close()
    [version] = json.loads((path / "table.json").read_text())
    assert sorted(version["rows"]) == [[1, "n1"], [2, "n2"]]
    assert version["options"].pop("mergeschema") == "true"
    [application] = [value for value in version["options"].values() if value.startswith("runnel-")]
    expected = {
        "delta": {"txnappid": application, "txnversion": "1"},
        "iceberg": {
            "snapshot-property.runnel.application": application,
            "snapshot-property.runnel.epoch": "1",
        },
    }
    assert version["options"] == expected[source]

    connection.execute(
        "CREATE MAPPING r TYPE Spark OPTIONS ('query' = 'SELECT id + 10 AS id FROM range(3)')"
    )
    connection.execute(f"CREATE JOB j {ON_SPARK} AS INSERT INTO t SELECT id, 'n' || id FROM r")
    connection.job("j").join(60)
    assert shown(connection, "j", "runtime", "guarantee", "rows_out") == ("spark", "exactlyOnce", 3)
    rows = connection.execute("SELECT id, name FROM t WHERE id <> 1 ORDER BY id").fetchall()
    assert rows == [(2, "n2"), (10, "n10"), (11, "n11"), (12, "n12")]
    assert [item.name for item in path.iterdir()] == ["table.json"]
