"""Data frames in and out: pandas, Polars and Arrow, without copies on the way in.

python examples/pandas_and_polars.py
"""

from __future__ import annotations

import pandas
import polars

import runnel


def main() -> None:
    orders = pandas.DataFrame(
        {"id": [1, 2, 3, 4], "customer": ["a", "b", "a", "c"], "total": [10.0, 20.5, 7.25, 99.0]}
    )
    customers = polars.DataFrame({"customer": ["a", "b", "c"], "country": ["NL", "NO", "NL"]})
    with runnel.connect() as connection:
        connection.register("orders", orders)
        connection.register("customers", customers)
        cursor = connection.cursor()
        sql = (
            "SELECT country, COUNT(*) AS orders, SUM(total) AS total "
            "FROM orders JOIN customers USING (customer) GROUP BY country ORDER BY country"
        )
        print(cursor.execute(sql).fetch_df())
        print(cursor.execute(sql).fetch_polars())
        print(cursor.execute(sql).fetch_arrow_table().schema)
        # A result is an Arrow stream to everything that takes one.
        print(
            polars.DataFrame(cursor.execute("SELECT id, total FROM orders WHERE total > ?", (10,)))
        )


if __name__ == "__main__":
    main()
