"""State of groups goes to the processors that have their keys now, whatever number of them and
whatever version saved it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import runnel
from runnel.columns.key_hash import (
    KEY_METADATA,
    RECOMBINED,
    RUN_METADATA,
    SAVER_METADATA,
    keyed_state,
)
from runnel.processors.panes.due_times import DueTimes
from runnel.processors.time_windows.timed_aggregate import TimedAggregateProcessor
from runnel.relation.streams import TimeBound
from tests.waiting import eventually

ROWS = [(i % 7, i % 5, i) for i in range(400)]
WINDOWS = {
    "tumbling": ("TUMBLE", "50", lambda t: [t // 50 * 50 + 50], "window_end, window_start"),
    "sliding": (
        "HOP",
        "60, 20",
        lambda t: [e for e in range(20, 500, 20) if e - 60 <= t < e],
        "window_end",
    ),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_groups_by_two_keys_with_other_numbers_of_processors(tmp_path: Path, name: str) -> None:
    kind, sizes, ends, keys = WINDOWS[name]
    path = tmp_path / "rows.csv"
    given = 0
    for parallelism in (2, 3, 1, 2):
        with runnel.connect(tmp_path / "kept") as connection:
            connection.execute(f"SET query_parallelism = {parallelism}")
            if not given:
                path.touch()
                connection.execute(
                    "CREATE MAPPING out (e BIGINT, k BIGINT, s BIGINT, n BIGINT) TYPE DuckDB"
                )
                connection.execute(
                    "CREATE MAPPING r (k BIGINT, s BIGINT, t BIGINT, WATERMARK FOR t AS t) "
                    "TYPE File OPTIONS "
                    f"('path'='{path}', 'format'='csv', 'header'='false', 'follow'='true', "
                    "'idleTimeoutMillis'='0')"
                )
                connection.execute(
                    "CREATE JOB j OPTIONS ('snapshotIntervalMillis'='3600000') AS INSERT INTO out "
                    "SELECT window_end, k, s, "
                    f"COUNT(*) FROM TABLE({kind}(TABLE r, DESCRIPTOR(t), {sizes})) "
                    f"GROUP BY {keys}, k, s"
                )
            else:
                connection.execute("ALTER JOB j RESTART")
            before = connection.job("j").rows_in
            with path.open("a") as file:
                file.writelines(f"{k},{s},{t}\n" for k, s, t in ROWS[given : given + 100])
            given += 100
            assert eventually(lambda: connection.job("j").rows_in == before + 100)  # noqa: B023
            if given == len(ROWS):
                connection.execute("ALTER JOB j SUSPEND")
                found = connection.execute("SELECT * FROM out").fetchall()
    expected = Counter((end, k, s) for k, s, t in ROWS for end in ends(t) if end < ROWS[-1][2])
    assert len(found) == len(expected)
    assert {(end, k, s): n for end, k, s, n in found} == expected


def test_state_that_was_divided_by_all_keys_keeps_what_else_it_says() -> None:
    """Whether it has rows or groups, and that it was made of other windows; but not who saved
    it."""
    processor = TimedAggregateProcessor.__new__(TimedAggregateProcessor)
    processor._due = DueTimes([(0, TimeBound(0)), (1, TimeBound(0))])
    processor._aggregation = type("Keys", (), {"keys": (None,) * 4})()  # type: ignore[assignment]
    watermarks = pa.record_batch([pa.array([0]), pa.array([5])], names=["watermark", "time"])
    assert processor.divided_as_now(watermarks) is watermarks
    batch = keyed_state(
        pa.record_batch([pa.array([1])] * 5, names=["k0", "k1", "k2", "k3", "s0"]),
        "k0",
        "k1",
        "k2",
        "k3",
    )
    more = {
        RECOMBINED: b"",
        SAVER_METADATA: b"0/2",
        RUN_METADATA: b"0/2 1",
        b"runnel.state.rows": b"",
    }
    found = processor.divided_as_now(
        batch.replace_schema_metadata({**batch.schema.metadata, **more})
    )
    assert found.schema.metadata == {
        KEY_METADATA: b"k2\nk3",
        RECOMBINED: b"",
        b"runnel.state.rows": b"",
    }
    assert processor.divided_as_now(found) is found
