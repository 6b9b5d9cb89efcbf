"""Binding of the SQL for streams: time windows, watermarks, emission, late rows.

Imports `planner/bind` and its `scalars`, `planner/parse`, `planner/event_time`,
`planner/rules`, `planner/rewriting.py`, `engine/relation`, `engine/expressions`, the contracts,
and one file of `engine/processors`.

Begin with `time_windows` (TUMBLE, HOP, CUMULATE, SESSION in FROM) and `emission` (EMIT EVERY,
ALLOWED LATENESS, LATE DATA INTO). `as_of` binds ASOF JOIN; `watermark` binds WATERMARK FOR.
"""
