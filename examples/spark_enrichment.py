"""A stream enriched from a map that changes and from a Spark DataFrame. Needs Java 17 and
`pip install runnel[spark]`.

python examples/spark_enrichment.py
"""

from __future__ import annotations

from pyspark.sql import SparkSession

import runnel

COLUMNS = {"customer": "INTEGER", "country": "VARCHAR", "amount": "INTEGER"}
ENRICHED = """
    SELECT o.customer, c.name, t.rate, o.amount * (100 + t.rate) / 100 AS gross
    FROM orders AS o
    LEFT JOIN customers AS c ON o.customer = c.__key
    JOIN taxes AS t ON o.country = t.country
"""


def main() -> None:
    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    with runnel.connect() as connection:
        connection.register(
            "taxes", spark.createDataFrame([("NL", 21), ("NO", 25)], "country STRING, rate INT")
        )
        options = "'keyFormat' = 'int', 'valueFormat' = 'json-flat'"
        connection.execute(
            f"CREATE MAPPING customers (__key INTEGER, name VARCHAR) TYPE IMap OPTIONS ({options})"
        )
        connection.execute("INSERT INTO customers VALUES (1, 'Ann'), (2, 'Bob')")

        writer = connection.register_stream("orders", COLUMNS)
        cursor = connection.execute(ENRICHED)
        writer.write([(1, "NL", 100), (3, "NO", 200)])
        print("before:", sorted([cursor.fetchone(), cursor.fetchone()]))
        connection.execute("INSERT INTO customers VALUES (3, 'Cid')")
        writer.write([(3, "NO", 300)])
        print("after: ", cursor.fetchone())
        writer.close()
        assert cursor.fetchall() == []
    spark.stop()


if __name__ == "__main__":
    main()
