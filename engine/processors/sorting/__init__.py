"""ORDER BY and top-N, with sorted runs on disk.

Imports the contracts `processor` and `dag`, `columns`, `expressions`, `storage`, and of
`processors` the root files and `stateful`.

Begin with `sort`, then `sorted_runs` (runs in memory or in files, merged slice by slice).
`ordering` defines the order of values; `event_time_sort` sorts a stream by event time.
"""
