"""Joins of two streams: by interval, by window, and as of a time.

Imports the contracts `processor` and `dag`, `columns`, `expressions`, `relation`, `storage`,
and of `processors` the folders `grouping`, `joins`, `sources` and `stateful`.

Begin with `stream_join`: one processor for all joins, and `StreamJoin`, its part that matches
rows. `join_inputs` has the rows that wait, the watermarks and the state of both sides; rows wait
in `sorted_runs`. `interval_join` is compiled by `interval_plan` and matched by
`interval_matching`; `window_join` and `as_of_join` are the other two. See
docs/design/011-stream-joins.md.
"""
