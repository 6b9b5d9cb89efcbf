"""Delta tables within bounds: what their logs name must be within them, too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import runnel
from tests.serving.bounds.doors import Doors, doors
from tests.serving.bounds.test_bounds import Place, refused

CREATE = (
    "CREATE MAPPING t (a BIGINT, b VARCHAR) TYPE Delta OPTIONS ('path' = '{}', 'create' = 'true'{})"
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def opened(place: Place) -> Iterator[Doors]:
    with doors(place.kept, place.data) as made:
        yield made


@pytest.mark.parametrize("more", ["", ", 'partitionBy' = 'b'"])
def test_a_table_within_bounds_is_made_read_and_written(
    place: Place, opened: Doors, more: str
) -> None:
    opened.user.execute(CREATE.format(place.data / "t", more))
    opened.user.execute("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    opened.user.execute("INSERT INTO t VALUES (3, 'x')")
    assert opened.user.execute("SELECT a FROM t WHERE b = 'x' ORDER BY a").fetchall() == [
        (1,),
        (3,),
    ]
    opened.user.execute(
        f"CREATE MAPPING f TYPE Delta OPTIONS ('path' = '{place.data}/t', 'follow' = 'true')"
    )
    with opened.user.execute("SELECT a FROM f") as cursor:
        assert sorted(cursor.fetchone() for _ in range(3)) == [(1,), (2,), (3,)]
    opened.user.execute(
        "CREATE JOB j AS INSERT INTO t SELECT v, 'z' FROM TABLE(GENERATE_SERIES(4, 5)) AS g(v)"
    )
    opened.served.job("j").join(30)
    assert opened.user.execute("SELECT COUNT(*) FROM t").fetchone() == (5,)


def test_tables_outside_are_refused(place: Place, opened: Doors) -> None:
    opened.owner.execute(CREATE.format(place.outside / "t", ""))
    refused(opened.user, CREATE.format(place.outside / "new", "").replace("MAPPING t", "MAPPING u"))
    assert not (place.outside / "new").exists()
    (place.data / "link").symlink_to(place.outside / "t")
    (place.data / "log").mkdir()
    (place.data / "log/_delta_log").symlink_to(place.outside / "t/_delta_log")
    (place.data / "file/_delta_log").mkdir(parents=True)
    (place.data / "file/_delta_log/00000000000000000000.json").symlink_to(
        place.outside / "t/_delta_log/00000000000000000000.json"
    )
    for name in ("outside/t", "data/../outside/t", "data/link", "data/log", "data/file"):
        refused(
            opened.user,
            f"CREATE MAPPING u TYPE Delta OPTIONS ('path' = '{place.data.parent / name}')",
        )
    assert opened.user.execute("SELECT COUNT(*) FROM t").fetchone() == (0,)  # the owner's mapping


def _log(folder: Path, *actions: object) -> None:
    (folder / "_delta_log").mkdir(parents=True)
    text = "\n".join(map(json.dumps, actions))
    (folder / "_delta_log/00000000000000000000.json").write_text(text)


def _actions(path: str, features: list[str] | None = None, **more: object) -> list[object]:
    field = {"name": "a", "type": "long", "nullable": True, "metadata": {}}
    protocol: dict[str, object] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if features is not None:
        protocol = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": features,
            "writerFeatures": features,
        }
    metadata = {
        "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": [field]}),
        "partitionColumns": [],
        "configuration": {},
    }
    add = {
        "path": path,
        "partitionValues": {},
        "size": 1,
        "modificationTime": 0,
        "dataChange": True,
        **more,
    }
    return [{"protocol": protocol}, {"metaData": metadata}, {"add": add}]


def test_a_log_that_a_client_wrote_leads_nowhere(place: Place, opened: Doors) -> None:
    pq.write_table(pa.table({"a": [42]}), place.outside / "secret.parquet")
    mapping = "CREATE OR REPLACE MAPPING t TYPE Delta OPTIONS ('path' = '{}/{}'{})"
    for number, path in enumerate(
        [f"file://{place.outside}/secret.parquet", "../../outside/secret.parquet"]
    ):
        _log(place.data / f"t{number}", *_actions(path))
        for more in ("", ", 'follow' = 'true'"):
            try:
                opened.user.execute(mapping.format(place.data, f"t{number}", more))
            except runnel.Error as error:
                assert "outside" in str(error), error
                continue
            refused(opened.user, "SELECT a FROM t LIMIT 1")


def test_features_that_name_files_are_the_owners(place: Place, opened: Doors) -> None:
    for number, feature in enumerate(["deletionVectors", "v2Checkpoint"]):
        _log(place.data / f"t{number}", *_actions("x.parquet", [feature]))
        error = refused(
            opened.user, f"CREATE MAPPING t TYPE Delta OPTIONS ('path' = '{place.data}/t{number}')"
        )
        assert feature in str(error)
