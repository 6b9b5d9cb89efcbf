"""The main job: words of the Python standard library, counted by SQL and by a hand-built DAG, and a
NEXMark corpus joined and aggregated through the cursor. Shows plans and timings.

    python examples/main_job.py [events]

`events` is the size of the NEXMark corpus, a million by default.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from time import perf_counter
from typing import Any

from nexmark_corpus import corpus
from word_count_dag import word_count_dag

import runnel

WORDS = """
    SELECT w, COUNT(*) AS n
    FROM lines, UNNEST(regexp_split_to_array(lower(line), '[^a-z]+')) AS t(w)
    WHERE w <> ''
    GROUP BY w ORDER BY n DESC, w LIMIT 10
"""

PATTERNS = {"modules": "*.py", "packages": "*/*.py"}

NEXMARK = {
    "the ten auctions with the most bids": """
        SELECT b.auction, a.item, COUNT(*) AS bids, MAX(b.price) AS highest
        FROM bid b JOIN auction a ON a.id = b.auction
        GROUP BY b.auction, a.item ORDER BY bids DESC, b.auction LIMIT 10""",
    "turnover by the seller's state": """
        SELECT p.state, COUNT(DISTINCT a.id) AS auctions, SUM(b.price) AS turnover,
            AVG(b.price) AS average
        FROM bid b JOIN auction a ON a.id = b.auction JOIN person p ON p.id = a.seller
        GROUP BY p.state ORDER BY turnover DESC""",
    "sellers nobody bid a reserve for": """
        SELECT COUNT(*) AS auctions FROM auction a
        WHERE NOT EXISTS (SELECT 1 FROM bid b WHERE b.auction = a.id AND b.price >= a.reserve)""",
}


def show(title: str, names: list[str], rows: list[tuple[Any, ...]], seconds: float) -> None:
    """Prints a result as a table."""
    cells = [names, *([str(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(names))]
    print(f"\n{title}  ({seconds * 1000:,.0f} ms)")
    for row in cells:
        print(
            "  "
            + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def run(cursor: runnel.Cursor, title: str, sql: str) -> list[tuple[Any, ...]]:
    """Runs and prints one query, after its plan."""
    cursor.execute("EXPLAIN " + sql)
    print("\n" + "\n".join(line for (line,) in cursor))
    start = perf_counter()
    rows = cursor.execute(sql).fetchall()
    show(title, [column[0] for column in cursor.description or ()], rows, perf_counter() - start)
    return rows


def count_words(connection: runnel.Connection, folder: Path) -> None:
    """The same count twice: by SQL, and by a DAG of ready-made processors."""
    cursor = connection.cursor()
    for name, pattern in PATTERNS.items():
        cursor.execute(
            f"CREATE MAPPING {name} TYPE File OPTIONS "
            f"('path'='{folder}/{pattern}', 'format'='lines', 'encodingErrors'='replace')"
        )
    cursor.execute(
        "CREATE VIEW lines AS SELECT line FROM modules "
        "UNION ALL SELECT line FROM packages WHERE file NOT LIKE '%/site-packages/%'"
    )
    files = [
        file
        for pattern in PATTERNS.values()
        for file in sorted(folder.glob(pattern))
        if "site-packages" not in file.parts
    ]
    by_sql = run(cursor, f"words of {len(files)} files of the standard library, by SQL", WORDS)
    start = perf_counter()
    dag, counts = word_count_dag(files)
    connection.submit(dag).join()
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:10]
    show("the same, by a hand-built DAG", ["w", "n"], ranked, perf_counter() - start)
    assert ranked == by_sql, "the DAG and the SQL query disagree"


def join_and_aggregate(connection: runnel.Connection, events: int) -> None:
    """Queries over a generated NEXMark corpus."""
    start = perf_counter()
    tables = corpus(events)
    print(f"\n{events:,} NEXMark events generated in {perf_counter() - start:.1f} s")
    for name in ("person", "auction", "bid"):
        connection.register(name, getattr(tables, name))
    for title, sql in NEXMARK.items():
        run(connection.cursor(), title, sql)


def main(arguments: list[str]) -> None:
    events = int(arguments[0]) if arguments else 1_000_000
    with runnel.connect() as connection:
        count_words(connection, Path(sysconfig.get_path("stdlib")))
        join_and_aggregate(connection, events)


if __name__ == "__main__":
    main(sys.argv[1:])
