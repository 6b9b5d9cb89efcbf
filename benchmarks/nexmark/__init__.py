"""NEXMark: queries q0 to q23 in Runnel's dialect, and their translation for DuckDB, the oracle.

Each file is one SELECT over `bid`, `auction`, `person` and (q13) `side_input`. README.md says where
they come from, which of them run as streams, and what the specification leaves to guess.
"""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("q*.sql")))
TABLES = ("bid", "auction", "person")

STREAMED = tuple(
    name
    for name in NAMES
    if name not in ("q03", "q04", "q06", "q09", "q15", "q16", "q17", "q18", "q19", "q20", "q23")
)
"""The queries that can run over an unbounded stream: later rows only add rows to the answer."""


def query(name: str) -> str:
    """The text of a query, such as "q05" or "q18_window"."""
    return (FOLDER / f"{name}.sql").read_text("utf-8")


def duckdb_query(name: str) -> str:
    """A query in DuckDB's SQL, with windows and missing functions replaced by expressions."""
    text = query(name)
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return text


_TUMBLE = re.compile(r"TABLE\(TUMBLE\(TABLE (\w+), DESCRIPTOR\((\w+)\), (INTERVAL '\d+' \w+)\)\)")
_HOP = re.compile(
    r"TABLE\(HOP\(TABLE (\w+), DESCRIPTOR\((\w+)\), (INTERVAL '\d+' \w+), (INTERVAL '\d+' \w+)\)\)"
)
_SESSION = re.compile(
    r"TABLE\(SESSION\(TABLE (\w+) PARTITION BY (\w+), DESCRIPTOR\((\w+)\), (INTERVAL '\d+' \w+)\)\)"
)
_REWRITES = (
    (
        _TUMBLE,
        (
            r"(SELECT *, time_bucket(\3, \2) AS window_start, "
            r"time_bucket(\3, \2) + \3 AS window_end FROM \1)"
        ),
    ),
    (
        _HOP,
        (
            r"(SELECT *, window_start + \3 AS window_end "
            r"FROM (SELECT *, UNNEST(generate_series(time_bucket(\4, \2 - \3) + \4, "
            r"time_bucket(\4, \2), \4)) AS window_start FROM \1))"
        ),
    ),
    (
        _SESSION,
        (
            r"(SELECT *, MIN(\3) OVER same AS window_start, MAX(\3) OVER same + \4 AS window_end "
            r"FROM (SELECT *, SUM(begins) OVER "
            r"(PARTITION BY \2 ORDER BY \3 RANGE UNBOUNDED PRECEDING) AS session "
            r"FROM (SELECT *, CASE WHEN \3 - LAG(\3) OVER "
            r"(PARTITION BY \2 ORDER BY \3) <= \4 THEN 0 ELSE 1 END AS begins FROM \1)) "
            r"WINDOW same AS (PARTITION BY \2, session))"
        ),
    ),
    (re.compile(r"TO_CHAR\((.+?), 'YYYY-MM-DD'\)"), r"strftime(\1, '%Y-%m-%d')"),
    (re.compile(r"TO_CHAR\((.+?), 'HH24:MI'\)"), r"strftime(\1, '%H:%M')"),
)
