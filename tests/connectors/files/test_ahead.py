"""Work done ahead by threads: in order, bounded, and over when its reader is."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from runnel.connectors.files.ahead import done_ahead


def reading_threads() -> int:
    return sum(thread.name.startswith("runnel-reading") for thread in threading.enumerate())


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_results_in_order(threads: int, count: int) -> None:
    assert list(done_ahead(lambda item: item * 2, range(count), threads)) == [
        (item, item * 2) for item in range(count)
    ]
    assert reading_threads() == 0


def test_few_pieces_are_taken_ahead() -> None:
    taken = []

    def pieces() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    done = done_ahead(str, pieces(), 2)
    assert next(done) == (0, "0")
    assert taken == [0, 1, 2]
    done.close()
    assert reading_threads() == 0


def test_an_error_comes_in_its_turn() -> None:
    def pieces() -> Iterator[int]:
        yield from (4, 2, 1)
        raise OSError("gone")

    seen = []
    with pytest.raises(OSError, match="gone"):
        seen.extend(done for _, done in done_ahead(lambda item: 4 // item, pieces(), 8))
    seen = []
    with pytest.raises(ZeroDivisionError):
        for _, done in done_ahead(lambda item: 4 // item, (4, 0, 2), 8):
            seen.append(done)
    assert seen == [1]
    assert reading_threads() == 0
