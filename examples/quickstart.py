"""Quickstart: a map of trades, filled and queried through one cursor.

python examples/quickstart.py
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

import runnel

START = datetime(2026, 1, 5, 9, 30)
TICKERS = ["ACME", "BOLT", "COGS"]


def main() -> None:
    with runnel.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(
            "CREATE MAPPING trades (__key BIGINT, ticker VARCHAR, price DECIMAL, ts TIMESTAMP) "
            "TYPE IMap"
        )
        rows = [
            (i, TICKERS[i % 3], Decimal(100 + i % 7), START + timedelta(minutes=i))
            for i in range(30)
        ]
        cursor.executemany("SINK INTO trades VALUES (?, ?, ?, ?)", rows)
        print(f"{cursor.rowcount} trades written")

        since = START + timedelta(minutes=10)
        cursor.execute(
            "SELECT ticker, COUNT(*) AS trades, AVG(price) AS average FROM trades "
            "WHERE ts >= ? GROUP BY ticker ORDER BY trades DESC, ticker LIMIT 10",
            (since,),
        )
        for ticker, trades, average in cursor:
            print(f"{ticker}: {trades} trades at {average:.2f}")

        cursor.execute("SELECT price FROM trades WHERE __key = ?", (7,))
        print("trade 7:", cursor.fetchone())

        cursor.execute("UPDATE trades SET price = price * 2 WHERE ticker = 'BOLT'")
        print(f"{cursor.rowcount} prices doubled")

        try:
            cursor.execute("SELECT tickr FROM trades")
        except runnel.ProgrammingError as error:
            print(error)


if __name__ == "__main__":
    main()
