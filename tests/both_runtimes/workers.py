"""Work for a few threads, each of which has a Spark session and connections of its own: while Spark
plans for one of them, it runs for another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

Worker = TypeVar("Worker")
Item = TypeVar("Item")
Result = TypeVar("Result")

WAITING = 3
"""How many items are taken before there is a worker for them."""


def shared_out(
    items: Iterable[Item], workers: Sequence[Worker], run: Callable[[Worker, Item], Result]
) -> Iterator[Result]:
    """What each item gives, in their order. No worker has two at a time."""
    free: SimpleQueue[Worker] = SimpleQueue()
    for worker in workers:
        free.put(worker)

    def one(item: Item) -> Result:
        worker = free.get()
        try:
            return run(worker, item)
        finally:
            free.put(worker)

    with ThreadPoolExecutor(len(workers)) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(one, item))
            while waiting and (waiting[0].done() or len(waiting) >= len(workers) + WAITING):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
