"""Deferring Ctrl-C: sections that must run completely or not at all.

Python raises KeyboardInterrupt in the main thread between any two instructions. While a tasklet
changes owners that would lose it, and its job would never end.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Inside, Ctrl-C is only recorded; at the end it has its usual effect. Does nothing in other
    threads, which are not interrupted."""
    handler = signal.getsignal(signal.SIGINT) if current_thread() is main_thread() else None
    if not callable(handler):
        yield
        return
    noted: list[tuple[Any, ...]] = []
    signal.signal(signal.SIGINT, lambda *arguments: noted.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if noted:
            handler(*noted[0])
