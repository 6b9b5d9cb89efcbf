"""A materialized view: balances of accounts, which are right after every transfer.

python examples/materialized_view.py
"""

from __future__ import annotations

import runnel

BALANCES = """
    CREATE MATERIALIZED VIEW balances AS
    SELECT account, SUM(amount) AS balance
    FROM (SELECT sender AS account, -amount AS amount FROM transfers
          UNION ALL SELECT receiver, amount FROM transfers)
    GROUP BY account
"""
RICHEST = "CREATE MATERIALIZED VIEW richest AS SELECT * FROM balances ORDER BY balance DESC LIMIT 1"


def main() -> None:
    with runnel.connect() as connection:
        columns = {"sender": "VARCHAR", "receiver": "VARCHAR", "amount": "BIGINT"}
        transfers = connection.register_stream("transfers", columns)
        connection.execute(BALANCES)
        connection.execute(RICHEST)

        # A read sees all that this process has written, also through views over views.
        for transfer in (("bank", "ann", 100), ("ann", "bo", 30), ("bo", "cy", 25)):
            transfers.write([transfer])
            total = connection.execute("SELECT SUM(balance) FROM balances").fetchone()
            assert total == (0,), "no transfer is half done"

        ann = connection.execute("SELECT balance FROM balances WHERE account = ?", ("ann",))
        print("Ann has", ann.fetchone()[0])

        # Subscribers get the content, and then each change: 1 appears, -1 disappears.
        changes = connection.execute("SELECT account, balance FROM richest EMIT CHANGES")
        print("richest:", changes.fetchone()[2:])
        transfers.write([("ann", "bo", 60)])
        for _ in range(2):
            _, weight, account, balance = changes.fetchone()
            print("+" if weight > 0 else "-", account, balance)


if __name__ == "__main__":
    main()
