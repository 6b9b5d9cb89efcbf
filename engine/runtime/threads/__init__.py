"""The threads that call tasklets, and clocks, timers and interrupts.

Imports `engine/runtime/tasklets`, `execution` of `engine/runtime`, and `engine/deadline.py`.

Begin with `workers`, the pool of cooperative threads. `caller` lets the fetching thread run a
young job itself; `dedicated` runs a blocking processor on its own thread; `idle` is the back-off.
"""
