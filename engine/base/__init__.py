"""Basics without any knowledge of SQL: frozen dataclasses, clocks, forks, awaiting threads.

Level 0: imports `engine/errors.py` and `engine/deadline.py` only; every folder may import it.

Begin with `frozen`, the decorator of nearly all value classes. `forks` lets objects detect that
they were inherited by a forked process (docs/design/021-forks.md); `awaiting` lets a coroutine
wait for the result of a thread; `clock` is the time of a connection.
"""
