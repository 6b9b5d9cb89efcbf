"""One query over growing Parquet files, from a megabyte to 20 GB, on Runnel's own operators, on
DuckDB and on Spark.

`python -m benchmarks.scale` measures it, and can be interrupted; see `__main__.py`.
"""

from __future__ import annotations

QUERY = """
    SELECT o_orderpriority, l_shipmode, COUNT(*) AS lines, SUM(l_quantity) AS pieces,
        SUM(l_extendedprice) AS price,
        MAX(l_shipdate) AS last_shipped
    FROM lineitem JOIN orders ON o_orderkey = l_orderkey
    WHERE l_shipdate >= DATE '1995-01-01' AND o_orderdate >= DATE '1995-01-01'
    GROUP BY o_orderpriority, l_shipmode
"""
"""The query in SQL that all engines accept. Half of the orders are joined with half of their lines,
so at 20 GB the join doesn't fit into memory."""

TABLES = ("lineitem", "orders")

MEMORY = "2GB"
"""The memory_limit of Runnel and of DuckDB."""
JAVA_HEAP = 2
"""GiB of memory of Spark's driver, in which its tasks run."""

SIZES = {
    "1 MB": 10**6,
    "10 MB": 10**7,
    "100 MB": 10**8,
    "1 GB": 10**9,
    "5 GB": 5 * 10**9,
    "20 GB": 20 * 10**9,
}
"""Bytes of Parquet, about."""

CONTESTANTS = {
    "planned": "Runnel, as it plans",
    "tasklets": "Runnel's tasklets",
    "duckdb": "DuckDB",
    "through_spark": "Runnel on Spark",
    "pyspark": "PySpark",
}
"""Runnel as the planner chooses, with large inputs on DuckDB; Runnel with its own operators only;
DuckDB alone; Runnel over mappings of TYPE Spark; PySpark alone."""

ON_SPARK = ("through_spark", "pyspark")
