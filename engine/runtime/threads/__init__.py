"""The threads that call tasklets, timers, and the check of a user's clock.

Imports `engine/testing` for its clock, `engine/runtime/tasklets`, `execution` of `engine/runtime`,
and `engine/deadline.py`.

Begin with `workers`, the pool of cooperative threads. `caller` lets the fetching thread run a
young job itself, and defers Ctrl-C; `dedicated` runs a blocking processor on its own
thread; `idle` is the back-off.
"""
