"""VERIFY JOB over followed tables of table formats, and with one of them as what the job writes
to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import runnel
from tests.jobs.feeds import PATIENCE
from tests.waiting import eventually

pytest.importorskip("deltalake", reason="needs deltalake: pip install 'runnel[delta]'")
pytest.importorskip("pyiceberg", reason="needs pyiceberg: pip install 'runnel[iceberg]'")
pytest.importorskip("sqlalchemy", reason="needs sqlalchemy: pip install 'runnel[iceberg]'")


def options(kind: str, path: Path, name: str) -> str:
    place = (
        f"'path' = '{path}/{name}'"
        if kind == "Delta"
        else f"'table' = 'space.{name}', 'warehouse' = '{path}'"
    )
    return f"TYPE {kind} OPTIONS ({place}"


@pytest.mark.parametrize("kind", ["Delta", "Iceberg"])
def test_a_job_over_a_followed_table(kind: str, tmp_path: Path) -> None:
    with runnel.connect() as con:
        con.register("rows", pa.table({"k": list(range(10)), "v": [f"v{i}" for i in range(10)]}))
        for name in ("source", "target"):
            con.execute(
                f"CREATE MAPPING {name} (k BIGINT, v VARCHAR) {options(kind, tmp_path, name)}, "
                "'create' = 'true')"
            )
        con.execute("INSERT INTO source SELECT k, v FROM rows")
        con.execute(
            f"CREATE MAPPING stream {options(kind, tmp_path, 'source')}, 'follow' = 'true', "
            "'pollMillis' = '1')"
        )
        con.execute(
            "CREATE JOB j OPTIONS ('snapshotIntervalMillis' = '3600000') "
            "AS INSERT INTO target SELECT k + 1, v FROM stream WHERE k <> 3"
        )
        job = con.job("j")

        def verified() -> Any:
            (row,) = con.execute("VERIFY JOB j", timeout=PATIENCE).fetchall()
            return row[:2]

        assert eventually(lambda: job.rows_in == 10 or job.rows_in == 9)
        assert verified() == ("equal", 9)
        con.execute("INSERT INTO source SELECT k + 100, v FROM rows")
        assert eventually(lambda: job.rows_in in (19, 20))
        assert verified() == ("equal", 19)
        con.execute("INSERT INTO target VALUES (0, 'of someone else')")
        assert con.execute("VERIFY JOB j", timeout=PATIENCE).fetchall()[0][0] != "equal"
        con.execute("DROP JOB j")
