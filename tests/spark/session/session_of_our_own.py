"""Two connections of one program that share the Spark which the first of them starts, and the last
of them stops."""

from __future__ import annotations

import runnel


def main() -> None:
    first = runnel.connect(spark="local[1]")
    second = runnel.connect()
    for connection in (first, second):
        connection.execute(
            "CREATE MAPPING t TYPE Spark OPTIONS ('query' = "
            "'SELECT id FROM range(3) WHERE 1 / (id + 1) > 0')"
        )
    first.close()
    print(sorted(second.execute("SELECT id FROM t").fetchall()))
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    print(context.master, context.getConf().get("spark.driver.host"))
    try:
        runnel.connect(spark="local[2]").execute(
            "CREATE MAPPING t TYPE Spark OPTIONS ('table' = 't')"
        )
    except runnel.OperationalError as error:
        print(error.message)
    second.close()
    print(SparkContext._active_spark_context)


if __name__ == "__main__":
    main()
