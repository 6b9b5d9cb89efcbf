"""Parameters are bound, never spliced; a statement is planned once and its plan used again.

python examples/parameters_and_plan_cache.py
"""

from __future__ import annotations

import pyarrow as pa

import runnel


def main() -> None:
    with runnel.connect() as connection:
        connection.register(
            "people", pa.table({"name": ["Ann", "Bob", "Cid"], "age": [41, 17, 65]})
        )
        cursor = connection.cursor()
        for age in (18, 42, 66):
            cursor.execute("SELECT name FROM people WHERE age >= ? ORDER BY name", (age,))
            print(f"{age} or older:", [name for (name,) in cursor])

        hostile = "Ann' OR '1'='1"
        print(
            "no such name:",
            cursor.execute("SELECT name FROM people WHERE name = ?", (hostile,)).fetchall(),
        )

        for kind, query, parameter_types, uses in cursor.execute("SHOW PLANS"):
            if kind == "plan":
                print(f"used {uses} times with {parameter_types}: {query}")

        # A plan is valid while the objects it names are unchanged: this replaces one.
        connection.register("people", pa.table({"name": ["Dora"], "age": [50]}))
        cursor.execute("SELECT name FROM people WHERE age >= ? ORDER BY name", (18,))
        print("after a new registration:", cursor.fetchall())


if __name__ == "__main__":
    main()
