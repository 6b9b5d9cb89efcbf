"""SESSION windows: rows grouped by gaps in their event time.

Imports the contracts `processor` and `dag`, `columns`, `expressions`, `relation`, `storage`,
and of `processors` the folders `grouping`, `sources`, `stateful` and `time_windows`.

Begin with `session_merge.OpenSessions`, which merges events and open sessions of a key.
`session_aggregate` aggregates without buffering rows; `session_rows` emits the rows of complete
sessions; `sessions_at_end` serves inputs that end. `ended_sessions` detects late rows.
"""
