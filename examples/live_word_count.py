"""A live word count: a query without end over a file that grows, read as it is written.

python examples/live_word_count.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from threading import Thread

import runnel

LINES = ["the cat sat on the mat", "the dog sat on the cat", "a cat and a dog", "the end"]
WORDS = """
    SELECT word, COUNT(*) AS n
    FROM (SELECT UNNEST(STRING_TO_ARRAY(line, ' ')) AS word FROM (SELECT line FROM log LIMIT 4))
    GROUP BY word
    ORDER BY n DESC, word
    LIMIT 3
"""


def write(path: Path) -> None:
    """What another program does: it appends line by line."""
    for line in LINES:
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, runnel.connect() as connection:
        path = Path(folder) / "today.log"
        path.touch()
        options = f"'path' = '{path}', 'format' = 'lines', 'follow' = 'true'"
        connection.execute(f"CREATE MAPPING log TYPE File OPTIONS ({options})")

        cursor = connection.execute("SELECT line FROM log")
        writer = Thread(target=write, args=(path,))
        writer.start()
        print("as they are written:")
        for _ in LINES:
            print(" ", cursor.fetchone()[0])
        cursor.close()
        writer.join()

        # A LIMIT makes an end of what has none, so anything may stand above it.
        print("the first four lines, counted:", connection.execute(WORDS).fetchall())


if __name__ == "__main__":
    main()
