"""A pipeline that starts on a laptop and moves to Spark by one option: 'runtime' = 'spark'. The
outputs are compared.

python examples/spark_by_one_option.py     (needs Java 17 and `pip install 'runnel[spark]'`)

Nothing of Spark is started before the job that asks for it. On a cluster:
`runnel.connect(spark="spark://host:7077")`, and the files where its workers see them.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import runnel

PIPELINE = """
    CREATE JOB {name} OPTIONS ('runtime' = '{runtime}') AS
    INSERT INTO {name}
    SELECT DATE_TRUNC('HOUR', o.at), p.name, COUNT(*), SUM(o.amount), MAX(o.amount)
    FROM orders AS o
    JOIN products AS p ON o.product = p.__key
    WHERE o.amount > 1
    GROUP BY DATE_TRUNC('HOUR', o.at), p.name
"""


def prepare(connection: runnel.Connection, folder: Path) -> None:
    """Orders of two days in Parquet files, and what their products are called, in a map."""
    connection.execute(f"""
        CREATE MAPPING orders (at TIMESTAMP, product BIGINT, amount DECIMAL(8, 2))
        TYPE File OPTIONS ('format' = 'parquet', 'path' = '{folder}/orders')""")
    connection.execute("""
        INSERT INTO orders
        SELECT TIMESTAMP '2024-05-01 00:00:00' + v * INTERVAL '1' SECOND, v % 4,
            CAST(v % 1000 AS DECIMAL(8, 2)) / 100
        FROM TABLE(GENERATE_SERIES(0, 172799))""")
    connection.execute("""
        CREATE MAPPING products (__key BIGINT, name VARCHAR)
        TYPE IMap""")
    connection.execute("INSERT INTO products VALUES (0, 'tea'), (1, 'café'), (2, 'mate')")


def run(connection: runnel.Connection, folder: Path, runtime: str) -> list[tuple[object, ...]]:
    """Runs the pipeline on a runtime, and gives what it has written."""
    name = f"on_{runtime}"
    connection.execute(f"""
        CREATE MAPPING {name} ("from" TIMESTAMP, product VARCHAR, orders BIGINT,
            turnover DECIMAL(38, 2), largest DECIMAL(8, 2))
        TYPE File OPTIONS ('format' = 'parquet', 'path' = '{folder}/{name}')""")
    connection.execute(PIPELINE.format(name=name, runtime=runtime))
    connection.job(name).join()
    return connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, runnel.connect() as connection:
        prepare(connection, Path(folder))
        here = run(connection, Path(folder), "tasklets")
        print(
            f"here: {len(here)} rows, Spark was {'' if 'pyspark' in sys.modules else 'not '}started"
        )
        there = run(connection, Path(folder), "spark")
        print(f"on Spark: {len(there)} rows, {'the same' if there == here else 'others'}")
        for begin, product, orders, turnover, largest in there[:3]:
            print(
                f"{begin:%d %b %H:%M} {product:5} {orders} orders {turnover:>9} in all, the "
                f"largest {largest}"
            )


if __name__ == "__main__":
    main()
