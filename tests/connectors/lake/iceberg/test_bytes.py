"""Iceberg tables that are partitioned by what stands in columns of bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import runnel

pytest.importorskip("pyiceberg", reason="needs pyiceberg: pip install 'runnel[iceberg]'")
pytest.importorskip("sqlalchemy", reason="needs sqlalchemy: pip install 'runnel[iceberg]'")

ROWS = [(1, b"\x00\xff"), (2, b"\x00"), (3, b""), (4, None), (5, b"a/b")]


def test_truncated_bytes(tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.transforms import BucketTransform, TruncateTransform

    catalog: Any = load_catalog(
        "default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}"
    )
    catalog.create_namespace("space")
    table = catalog.create_table("space.t", pa.schema([("id", pa.int64()), ("code", pa.binary())]))
    with table.update_spec() as spec:
        spec.add_field("code", TruncateTransform(1), "first")
        spec.add_field("code", BucketTransform(3), "bucket")
    with runnel.connect() as con:
        con.execute(
            "CREATE MAPPING t TYPE Iceberg OPTIONS ('table' = 'space.t', "
            f"'warehouse' = '{tmp_path}')"
        )
        con.cursor().executemany("INSERT INTO t VALUES (?, ?)", ROWS)
        assert con.execute("SELECT * FROM t ORDER BY id").fetchall() == ROWS
        found = [
            con.execute("SELECT id FROM t WHERE code = ?", (code,)).fetchall() for _, code in ROWS
        ]
    assert found == [[(1,)], [(2,)], [(3,)], [], [(5,)]]
    theirs = table.refresh().scan().to_arrow().sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in theirs] == ROWS
