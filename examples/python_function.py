"""A Python function in SQL: over Arrow arrays, or over single values where there is no array
function for the job.

python examples/python_function.py
"""

from __future__ import annotations

import unicodedata

import numpy as np
import pyarrow as pa

import runnel

RADIUS_KM = 6371.0


def distance(
    latitude_1: pa.Array, longitude_1: pa.Array, latitude_2: pa.Array, longitude_2: pa.Array
) -> np.ndarray:
    """Kilometres along the great circle (haversine), a batch of rows at a time."""
    a, b, c, d = (
        np.radians(np.asarray(column))
        for column in (latitude_1, longitude_1, latitude_2, longitude_2)
    )
    half = np.sin((c - a) / 2) ** 2 + np.cos(a) * np.cos(c) * np.sin((d - b) / 2) ** 2
    return 2 * RADIUS_KM * np.arcsin(np.sqrt(half))


def plain(text: str) -> str:
    """The text without accents, for looking things up."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()


def main() -> None:
    cities = pa.table(
        {
            "name": ["Wien", "Zürich", "København", "São Paulo", "Nowhere"],
            "latitude": [48.2082, 47.3769, 55.6761, -23.5505, None],
            "longitude": [16.3738, 8.5417, 12.5683, -46.6333, None],
        }
    )
    with runnel.connect() as connection:
        connection.register("cities", cities)
        connection.create_function("distance", distance, ["DOUBLE"] * 4, "DOUBLE", nulls="skip")
        connection.create_function(
            "plain", plain, ["VARCHAR"], "VARCHAR", scalar=True, nulls="skip"
        )

        print("from Vienna:")
        query = """SELECT name, distance(48.2082, 16.3738, latitude, longitude) AS km FROM cities
                   WHERE plain(name) <> 'wien' ORDER BY km NULLS LAST"""
        for name, km in connection.execute(query):
            print(f"  {name:10} {'unknown' if km is None else f'{km:,.0f} km'}")

        found = connection.execute(
            "SELECT name FROM cities WHERE plain(name) LIKE ?", ("%paulo",)
        ).fetchall()
        print("found:", found)


if __name__ == "__main__":
    main()
