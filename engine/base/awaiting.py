"""Lets a coroutine wait for a condition that other threads fulfil, without a waiting thread."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

Wake = Callable[[], None]


async def until(
    condition: Callable[[], bool], subscribe: Callable[[Wake], Callable[[], object]]
) -> None:
    """Wait until the condition holds; other coroutines run meanwhile.

    condition: is evaluated in the thread of the event loop.
    subscribe: registers a callback, which any thread may call whenever the condition may have
        become true; returns the function that cancels the registration.
    """
    # Imported here: loading asyncio costs 20 ms, and a program that awaits has loaded it already.
    from asyncio import Event, get_running_loop

    loop, news = get_running_loop(), Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop is closed, so no coroutine waits
            loop.call_soon_threadsafe(news.set)

    forget = subscribe(wake)
    try:
        while not condition():
            await news.wait()
            news.clear()
    finally:
        forget()
