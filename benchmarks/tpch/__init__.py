"""TPC-H: the queries with their validation parameters, one file each."""

from __future__ import annotations

from pathlib import Path

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
QUERIES = tuple(range(1, 23))


def query(number: int) -> str:
    """The text of a query, 1 to 22."""
    return (Path(__file__).parent / f"q{number:02}.sql").read_text("utf-8")
