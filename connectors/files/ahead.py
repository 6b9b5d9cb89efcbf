"""Work on the pieces of one file done ahead by several threads, with the results in order: a single
large file keeps all cores busy, and its rows still come in the order in which they stand there, as
event time wants it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

Piece = TypeVar("Piece")
Done = TypeVar("Done")


def done_ahead(
    work: Callable[[Piece], Done], pieces: Iterable[Piece], threads: int
) -> Generator[tuple[Piece, Done], None, None]:
    """Each piece with what `work` makes of it. What either raises comes in its turn, after all
    before it. At most `threads` + 1 pieces are under way. The threads are gone when the generator
    ends or is closed."""
    # Loaded on first use: small files do without.
    from concurrent.futures import Future, ThreadPoolExecutor

    pool = ThreadPoolExecutor(threads, "runnel-reading")
    under_way: deque[tuple[Piece, Future[Done]]] = deque()
    source = iter(pieces)
    failure: Exception | None = None
    try:
        while True:
            try:
                piece = next(source)
            except StopIteration:
                break
            except Exception as error:
                failure = error
                break
            under_way.append((piece, pool.submit(work, piece)))
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
