"""Sliding averages over a pushed stream: rows come from the program itself, results when a window
is complete.

python examples/sliding_averages.py
"""

from __future__ import annotations

from datetime import datetime, timedelta

import runnel

START = datetime(2026, 1, 1, 12)
COLUMNS = {"sensor": "VARCHAR", "celsius": "DOUBLE", "ts": "TIMESTAMP"}
AVERAGES = """
    SELECT window_end, sensor, AVG(celsius) AS average, COUNT(*) AS n
    FROM TABLE(HOP(TABLE readings, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '10' SECOND))
    GROUP BY window_end, sensor
"""


def reading(second: int, sensor: str, celsius: float) -> tuple[str, float, datetime]:
    return sensor, celsius, START + timedelta(seconds=second)


def main() -> None:
    with runnel.connect() as connection:
        writer = connection.register_stream(
            "readings", COLUMNS, time_column="ts", max_disorder=timedelta(seconds=5)
        )
        cursor = connection.execute(AVERAGES)
        writer.write([reading(second, "cellar", 10 + second / 10) for second in range(0, 20, 2)])
        writer.write(
            [reading(21, "roof", 30.0), reading(16, "roof", 20.0)]
        )  # five seconds late is soon enough
        print("complete when a reading is five seconds past the window's end:")
        writer.write([reading(26, "cellar", 12.0)])
        for window_end, sensor, average, count in sorted(cursor.fetchone() for _ in range(3)):
            print(f"  {window_end:%H:%M:%S} {sensor:6} {average:5.2f} °C of {count}")
        writer.close()
        rest = cursor.fetchall()
        print(
            f"the end of the stream completes the other {len(rest)}, the last of them "
            f"{max(row[0] for row in rest):%H:%M:%S}"
        )


if __name__ == "__main__":
    main()
