"""A join of streams whose condition adds days to an instant, where clocks change."""

from __future__ import annotations

from pathlib import Path

import runnel

ROWS = {
    "a": ["1,2024-03-10 06:30:00+00", "2,2024-03-12 06:30:00+00", "4,2024-03-20 05:30:00+00"],
    "b": [
        "1,2024-03-11 05:30:00+00",
        "2,2024-03-11 06:00:00+00",
        "4,2024-03-20 05:30:00+00",
        "5,2024-03-25 05:30:00+00",
    ],
}
JOIN = "SELECT a.k, b.k FROM {0}a a JOIN {0}b b ON b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' DAY"


def test_join_of_streams_by_days(tmp_path: Path) -> None:
    with runnel.connect() as con:
        con.execute("SET TimeZone = 'America/New_York'")
        for name, rows in ROWS.items():
            folder = tmp_path / name
            folder.mkdir()
            (folder / "rows.csv").write_text("\n".join(["k,ts", *rows]) + "\n")
            con.execute(
                f"CREATE MAPPING s{name} (k INT, ts TIMESTAMP WITH TIME ZONE, "
                "WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) TYPE File OPTIONS ("
                f"'path' = '{folder}', 'format' = 'csv', 'glob' = '*.csv', 'follow' = 'true')"
            )
            con.execute(
                f"CREATE TABLE t{name} AS SELECT k::INT AS k, ts::TIMESTAMPTZ AS ts "
                f"FROM read_csv('{folder}/rows.csv')"
            )
        batch = con.execute(JOIN.format("t")).fetchall()
        assert sorted(batch) == [(1, 1), (4, 4)]  # the day from March 10th has 23 hours
        plan = "\n".join(row[0] for row in con.execute("EXPLAIN " + JOIN.format("s")).fetchall())
        # Rows wait for a day more than the interval, as a clock may change by as much.
        assert "0:00:00 <= ts - ts <= 2 days" in plan
        stream = con.execute(JOIN.format("s"))
        assert sorted(stream.fetchmany(2)) == batch
        stream.close()
