"""Lets a coroutine wait for a condition that other threads fulfil, without a waiting thread."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import monotonic

Wake = Callable[[], None]


async def until(
    condition: Callable[[], bool],
    subscribe: Callable[[Wake], Callable[[], object]],
    end: float | None = None,
) -> bool:
    """Wait until the condition holds; other coroutines run meanwhile. False: it did not hold in
    time.

    condition: is evaluated in the thread of the event loop.
    subscribe: registers a callback, which any thread may call whenever the condition may have
        become true; returns the function that cancels the registration.
    end: time of `time.monotonic` at which the wait ends; None: never. If that time has passed, the
        other coroutines run once all the same.
    """
    # Imported here: loading asyncio costs 20 ms, and a program that awaits has loaded it already.
    from asyncio import Event, get_running_loop

    loop, news = get_running_loop(), Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop is closed, so no coroutine waits
            loop.call_soon_threadsafe(news.set)

    # The loop may call it a little before the time, so the call itself is what ends the wait.
    is_over = False

    def stop() -> None:
        nonlocal is_over
        is_over = True
        news.set()

    timer = None if end is None else loop.call_later(max(0.0, end - monotonic()), stop)
    forget = subscribe(wake)
    try:
        while not condition():
            if is_over:
                return False
            await news.wait()
            news.clear()
        return True
    finally:
        forget()
        if timer is not None:
            timer.cancel()
