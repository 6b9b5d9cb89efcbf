"""Waiting in a coroutine for what threads bring about, without a thread that waits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

Wake = Callable[[], None]


async def until(
    condition: Callable[[], bool], subscribe: Callable[[Wake], Callable[[], object]]
) -> None:
    """Waits until the condition holds; other coroutines run meanwhile. `subscribe` has what it is
    given called, from any thread, whenever the condition may have come about; it gives what ends
    that."""
    # Loaded here: it takes 20 ms, and a program that awaits has it anyway.
    from asyncio import Event, get_running_loop

    loop, news = get_running_loop(), Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(news.set)

    forget = subscribe(wake)
    try:
        while not condition():
            await news.wait()
            news.clear()
    finally:
        forget()
