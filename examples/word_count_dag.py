"""Word count as a hand-built DAG: lines → words → counts where the words are → counts by word → a
dictionary.

python examples/word_count_dag.py [file ...]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import runnel
from runnel.dag import between
from runnel.processors.library import (
    accumulate_by_key,
    combine_by_key,
    counting,
    flat_map,
    sink_to,
    source_of,
)


def lines_of(files: list[Path]) -> Iterator[pa.RecordBatch]:
    """A batch of lines for each file."""
    for file in files:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        yield pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], names=["line"])


def words_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The words of a batch of lines, in lower case."""
    words = pc.list_flatten(pc.split_pattern_regex(pc.utf8_lower(batch["line"]), "[^a-z]+"))
    yield pa.RecordBatch.from_arrays([words.filter(pc.not_equal(words, ""))], names=["word"])


def word_count_dag(files: list[Path]) -> tuple[runnel.DAG, dict[str, int]]:
    """The DAG, and the dictionary that it fills when it runs."""
    counts: dict[str, int] = {}

    def keep(batch: pa.RecordBatch) -> None:
        counts.update(zip(batch["word"].to_pylist(), batch["n"].to_pylist(), strict=True))

    dag = runnel.DAG()
    lines = dag.vertex("lines", source_of(lambda: lines_of(files)), parallelism=1)
    words = dag.vertex("words", flat_map(words_of), parallelism=2)
    accumulate = dag.vertex("accumulate", accumulate_by_key("word", n=counting()), parallelism=2)
    combine = dag.vertex("combine", combine_by_key("word", n=counting()), parallelism=2)
    sink = dag.vertex("sink", sink_to(keep), parallelism=1)
    dag.edge(between(lines, words))
    dag.edge(between(words, accumulate).isolated())
    dag.edge(between(accumulate, combine).partitioned("word"))
    dag.edge(between(combine, sink))
    return dag, counts


def main(arguments: list[str]) -> None:
    files = [Path(argument) for argument in arguments] or [Path(__file__)]
    dag, counts = word_count_dag(files)
    with runnel.connect() as connection:
        job = connection.submit(dag)
        job.join()
        print(job)
    for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:10]:
        print(f"{count:6} {word}")


if __name__ == "__main__":
    main(sys.argv[1:])
