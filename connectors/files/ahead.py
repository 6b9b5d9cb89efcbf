"""Processes the chunks of one file on several threads, ahead of the consumer, and in order.

A single large file thus keeps all cores busy, and its rows still come in the order of the file,
which event time requires.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

Chunk = TypeVar("Chunk")
Done = TypeVar("Done")


def done_ahead(
    work: Callable[[Chunk], Done], chunks: Iterable[Chunk], threads: int
) -> Generator[tuple[Chunk, Done], None, None]:
    """Yields each chunk with the result of `work`, in order.

    An exception of `work` or of `chunks` is raised in its turn, after all results before it. At
    most `threads` + 1 chunks are in progress. The threads have ended when the generator ends or is
    closed.
    """
    # Loaded on first use, because small files do not need it.
    from concurrent.futures import Future, ThreadPoolExecutor

    pool = ThreadPoolExecutor(threads, "runnel-reading")
    under_way: deque[tuple[Chunk, Future[Done]]] = deque()
    source = iter(chunks)
    failure: Exception | None = None
    try:
        while True:
            try:
                chunk = next(source)
            except StopIteration:
                break
            except Exception as error:
                failure = error
                break
            under_way.append((chunk, pool.submit(work, chunk)))
            if len(under_way) > threads:
                first, future = under_way.popleft()
                yield first, future.result()
        while under_way:
            first, future = under_way.popleft()
            yield first, future.result()
        if failure is not None:
            raise failure
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
