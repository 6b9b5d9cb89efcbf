"""Sessions: what a visitor does without a longer pause is one visit. Late rows go where they can be
looked at.

python examples/sessions.py
"""

from __future__ import annotations

from datetime import datetime, timedelta

import runnel

START = datetime(2026, 1, 1, 9)
COLUMNS = {"visitor": "VARCHAR", "page": "VARCHAR", "ts": "TIMESTAMP"}
VISITS = """
    SELECT visitor, window_start, MAX(ts) AS left_at, COUNT(*) AS pages,
        STRING_AGG(page, ' > ' ORDER BY ts) AS path
    FROM TABLE(SESSION(TABLE clicks PARTITION BY visitor, DESCRIPTOR(ts), INTERVAL '10' MINUTE))
    GROUP BY visitor, window_start, window_end
    LATE DATA INTO late_clicks
"""


def click(minute: int, visitor: str, page: str) -> tuple[str, str, datetime]:
    return visitor, page, START + timedelta(minutes=minute)


def main() -> None:
    with runnel.connect() as connection:
        connection.execute(
            "CREATE MAPPING late_clicks (visitor VARCHAR, page VARCHAR, ts TIMESTAMP) TYPE DuckDB"
        )
        writer = connection.register_stream(
            "clicks", COLUMNS, time_column="ts", max_disorder=timedelta(minutes=1)
        )
        cursor = connection.execute(VISITS)
        writer.write(
            [
                click(0, "ann", "home"),
                click(4, "ann", "shop"),
                click(2, "bob", "home"),
                click(9, "ann", "cart"),
            ]
        )
        writer.write([click(30, "bob", "home")])  # so long after that the first visits are over
        visits = [cursor.fetchone(), cursor.fetchone()]
        writer.write([click(3, "ann", "help")])  # too late: that visit was told already
        writer.close()
        for visitor, started, left, pages, path in [*sorted(visits), *cursor.fetchall()]:
            print(f"  {visitor} {started:%H:%M}-{left:%H:%M} {pages} pages: {path}")
        print("late:", connection.execute("SELECT visitor, page FROM late_clicks").fetchall())


if __name__ == "__main__":
    main()
