"""A live word count: the number of each word of a file, which changes as the file grows.

python examples/live_word_count.py
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from threading import Thread

import runnel

LINES = ["the cat sat on the mat", "the dog sat on the cat", "a cat and a dog", "the end"]
WORDS = """
    SELECT word, COUNT(*) AS n
    FROM (SELECT UNNEST(STRING_TO_ARRAY(line, ' ')) AS word FROM log) AS words
    GROUP BY word
    EMIT CHANGES
"""


def write(path: Path) -> None:
    """The other program, which appends line by line."""
    for line in LINES:
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, runnel.connect() as connection:
        path = Path(folder) / "today.log"
        path.touch()
        options = f"'path' = '{path}', 'format' = 'lines', 'follow' = 'true'"
        connection.execute(f"CREATE MAPPING log TYPE File OPTIONS ({options})")

        cursor = connection.execute(WORDS)
        writer = Thread(target=write, args=(path,))
        writer.start()
        # Each change says that a row appears (weight 1) or disappears (weight -1). The weights add
        # up to the answer: exactly, whenever an epoch is complete.
        counts: Counter[tuple[str, int]] = Counter()
        expected = sum(len(line.split()) for line in LINES)
        while sum(n for (_, n), weight in counts.items() if weight) < expected:
            epoch, weight, word, n = cursor.fetchone()
            counts[word, n] += weight
            while cursor.epoch is None or cursor.epoch < epoch:
                _, weight, word, n = cursor.fetchone()
                counts[word, n] += weight
        cursor.close()
        writer.join()

        words = dict(key for key, weight in counts.items() if weight)
        for word, n in sorted(words.items(), key=lambda item: (-item[1], item[0]))[:3]:
            print(f"{n} × {word}")


if __name__ == "__main__":
    main()
