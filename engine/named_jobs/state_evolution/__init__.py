"""Reuse of a job's state by a changed query.

Imports the engine's basics, `columns`, `dag`, `expressions`, `relation`, `snapshots`, and the
files of `engine/processors` (sessions, sources, time_windows) whose state it converts.

Begin with `compatibility`: it decides for each vertex whether its state is retained, converted
or dropped. `recombination` and `converted_state` turn the state of one window into another;
`adapted_store` presents an old snapshot to the new plan.
"""
