"""A Spark DataFrame joined with a map: Spark counts where the rows are, the map has what changes
from minute to minute.

python examples/spark_and_map.py     (needs Java 17 and `pip install 'runnel[spark]'`)
"""

from __future__ import annotations

import tempfile

import runnel


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, runnel.connect(spark="local[2]") as connection:
        cursor = connection.cursor()

        # A mapping in Spark: here a query in Spark's own SQL; 'format' and 'path' read files,
        # 'table' a table of its catalog.
        cursor.execute("""
            CREATE MAPPING rides TYPE Spark OPTIONS ('query' =
                'SELECT id AS ride, id % 4 AS driver, CAST(5 + id % 17 AS DECIMAL(8, 2)) AS fare
                FROM range(100000)')""")

        # A map: look-ups by key take microseconds, and start no Spark job.
        cursor.execute("""
            CREATE MAPPING drivers (__key BIGINT, name VARCHAR, city VARCHAR)
            TYPE IMap""")
        cursor.executemany(
            "SINK INTO drivers VALUES (?, ?, ?)",
            [(0, "Ana", "Lviv"), (1, "Bo", "Oslo"), (2, "Cy", "Oslo")],
        )

        per_driver = (
            "SELECT driver, COUNT(*) AS rides, SUM(fare) AS fares FROM rides WHERE fare > ? "
            "GROUP BY driver"
        )
        for row in cursor.execute(
            f"SELECT city, name, rides, fares FROM ({per_driver}) JOIN drivers ON driver = __key "
            "ORDER BY city, name",
            (10,),
        ):
            print(*row)

        # Results go back to where Spark reads them; nothing is visible before the statement has
        # succeeded.
        cursor.execute(f"""
            CREATE MAPPING totals (city VARCHAR, fares DECIMAL(20, 2))
            TYPE Spark OPTIONS ('format' = 'parquet', 'path' = '{folder}/totals')""")
        cursor.execute(
            "INSERT INTO totals SELECT city, SUM(fare) FROM rides JOIN drivers ON driver = __key "
            "GROUP BY city"
        )
        print(
            cursor.rowcount,
            "totals written:",
            *cursor.execute("SELECT city, fares FROM totals ORDER BY city"),
        )


if __name__ == "__main__":
    main()
