"""Analytical queries in the manner of ClickBench over ten million bids of the NEXMark corpus, each
checked against DuckDB.

    python -m benchmarks.bids [rounds]

The queries are of ClickBench's kinds (counts, filters, distinct counts, small and large groups,
text patterns, top lists, times truncated to the minute) over the columns of a bid. Every answer is
compared with DuckDB's answer before the measurement: DOUBLEs to 1e-9 relative, other values
exactly, and in order if the query has ORDER BY.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa

import runnel
from benchmarks.measure import Contestant, Result, measure, spelled
from examples.nexmark_corpus import corpus

BIDS = 10_000_000
EVENTS = -(-BIDS * 50 // 46)

QUERIES = (
    "SELECT COUNT(*) FROM bids",
    "SELECT COUNT(*) FROM bids WHERE price <> 100",
    "SELECT SUM(price), COUNT(*), AVG(bidder) FROM bids",
    "SELECT AVG(auction) FROM bids",
    "SELECT COUNT(DISTINCT bidder) FROM bids",
    "SELECT COUNT(DISTINCT channel) FROM bids",
    "SELECT MIN(ts), MAX(ts) FROM bids",
    (
        "SELECT channel, COUNT(*) AS n FROM bids WHERE channel <> 'Apple' GROUP BY channel "
        "ORDER BY n DESC"
    ),
    (
        "SELECT channel, COUNT(DISTINCT bidder) AS n FROM bids GROUP BY channel "
        "ORDER BY n DESC, channel LIMIT 10"
    ),
    (
        "SELECT channel, SUM(price), COUNT(*) AS n, AVG(price), COUNT(DISTINCT auction) FROM bids "
        "GROUP BY channel ORDER BY n DESC"
    ),
    "SELECT bidder, COUNT(*) AS n FROM bids GROUP BY bidder ORDER BY n DESC, bidder LIMIT 10",
    (
        "SELECT bidder, channel, COUNT(*) AS n FROM bids GROUP BY bidder, channel "
        "ORDER BY n DESC, bidder, channel LIMIT 10"
    ),
    "SELECT bidder, EXTRACT(MINUTE FROM ts) AS m, channel, COUNT(*) AS n FROM bids "
    "GROUP BY bidder, m, channel ORDER BY n DESC, bidder, m, channel LIMIT 10",
    "SELECT COUNT(*), SUM(price) FROM bids WHERE bidder = 4350",
    "SELECT COUNT(*) FROM bids WHERE channel LIKE '%oo%'",
    (
        "SELECT channel, MIN(auction), COUNT(*) AS n FROM bids "
        "WHERE channel LIKE '%oo%' AND price > 1000 "
        "GROUP BY channel ORDER BY n DESC, channel LIMIT 10"
    ),
    (
        "SELECT ts, auction, bidder, price FROM bids WHERE channel LIKE 'B%' "
        "ORDER BY ts, auction, bidder, price LIMIT 10"
    ),
    "SELECT channel, price FROM bids WHERE price > 99000000 ORDER BY price DESC, channel LIMIT 10",
    "SELECT channel, AVG(LENGTH(channel)) AS l, COUNT(*) AS n FROM bids "
    "GROUP BY channel HAVING COUNT(*) > 100000 ORDER BY n DESC",
    (
        "SELECT SUM(price), SUM(price + 1), SUM(price + 2), SUM(price + 3), SUM(price + 4), "
        "SUM(price + 5) FROM bids"
    ),
    "SELECT auction, bidder, COUNT(*) AS n, SUM(price), AVG(price) FROM bids "
    "GROUP BY auction, bidder ORDER BY n DESC, auction, bidder LIMIT 10",
    (
        "SELECT 1 AS one, auction, COUNT(*) AS n FROM bids GROUP BY one, auction "
        "ORDER BY n DESC, auction LIMIT 10"
    ),
    "SELECT bidder, bidder - 1 AS b1, bidder - 2 AS b2, COUNT(*) AS n FROM bids "
    "GROUP BY bidder, b1, b2 ORDER BY n DESC, bidder LIMIT 10",
    "SELECT DATE_TRUNC('minute', ts) AS m, COUNT(*) AS n FROM bids GROUP BY m ORDER BY m",
    (
        "SELECT DATE_TRUNC('minute', ts) AS m, channel, SUM(price) AS s FROM bids "
        "WHERE ts < TIMESTAMP '2026-01-01 00:10:00' "
        "GROUP BY m, channel ORDER BY m, channel LIMIT 20"
    ),
    (
        "SELECT CASE WHEN price < 1000 THEN 'low' WHEN price < 1000000 THEN 'middle' ELSE 'high' "
        "END AS class, COUNT(*) AS n, "
        "STDDEV_POP(price) FROM bids GROUP BY class ORDER BY class"
    ),
    (
        "SELECT auction, price, RANK() OVER (PARTITION BY auction ORDER BY price DESC) AS r "
        "FROM bids WHERE auction < 1300 "
        "ORDER BY auction, r, price LIMIT 20"
    ),
    "SELECT COUNT(*) FROM (SELECT DISTINCT auction, bidder FROM bids) t",
    (
        "SELECT b.channel, COUNT(*) AS n FROM bids b "
        "JOIN (SELECT bidder FROM bids GROUP BY bidder HAVING COUNT(*) > 100) f "
        "ON b.bidder = f.bidder GROUP BY b.channel ORDER BY b.channel"
    ),
    "SELECT bidder, price FROM bids ORDER BY price DESC, bidder LIMIT 10 OFFSET 1000",
)


def results(rounds: int) -> Iterator[Result]:
    """One result: all queries in sequence."""
    with runnel.connect(cooperative_threads=2) as connection:
        duck = duckdb.connect(config={"threads": 2})
        bids = corpus(EVENTS).bid.slice(0, BIDS)
        connection.register("bids", bids)
        duck.register("bids", bids)
        cursor = connection.cursor()
        for query in QUERIES:
            check(query, cursor.execute(query).fetchall(), duck.sql(query).fetchall())

        def ours() -> None:
            for query in QUERIES:
                cursor.execute(query).fetchall()

        def theirs() -> None:
            for query in QUERIES:
                duck.sql(query).fetchall()

        yield measure(
            "analytical queries",
            [Contestant("Runnel", ours), Contestant("DuckDB", theirs)],
            rounds=rounds,
            note=(
                f"{len(QUERIES)} queries in the manner of ClickBench over {BIDS:,} registered "
                "NEXMark bids, answers checked"
            ),
        )
        duck.close()


def check(query: str, ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> None:
    """AssertionError if two answers differ. Without ORDER BY, the order does not matter."""
    if "ORDER BY" not in query.split(")")[-1]:
        ours, theirs = sorted(ours), sorted(theirs)
    assert len(ours) == len(theirs), f"{query}: {len(ours)} rows, not {len(theirs)}"
    for got, expected in zip(ours, theirs, strict=True):
        assert all(map(_same, got, expected)), f"{query}: {got}, not {expected}"


def _same(got: Any, expected: Any) -> bool:
    if isinstance(got, float) or isinstance(expected, float):
        return math.isclose(got, expected, rel_tol=1e-9)
    return bool(got == expected)


def main(arguments: list[str]) -> None:
    """Times each query on Runnel and on DuckDB."""
    rounds = int(arguments[0]) if arguments else 3
    bids: pa.Table = corpus(EVENTS).bid.slice(0, BIDS)
    with runnel.connect(cooperative_threads=2) as connection:
        duck = duckdb.connect(config={"threads": 2})
        connection.register("bids", bids)
        duck.register("bids", bids)
        cursor = connection.cursor()
        for number, query in enumerate(QUERIES, 1):
            check(query, cursor.execute(query).fetchall(), duck.sql(query).fetchall())
            ours = Contestant("Runnel", lambda query=query: cursor.execute(query).fetchall())  # type: ignore[misc]
            theirs = Contestant("DuckDB", lambda query=query: duck.sql(query).fetchall())  # type: ignore[misc]
            one, other = measure(query, [ours, theirs], rounds=rounds).timings
            print(
                f"{number:2} {spelled(one.median):>8} {spelled(other.median):>8} "
                f"{one.median / other.median:5.2f}  {query}",
                flush=True,
            )
        duck.close()


if __name__ == "__main__":
    main(sys.argv[1:])
