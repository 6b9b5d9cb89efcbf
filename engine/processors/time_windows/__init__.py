"""TUMBLE, HOP and CUMULATE: windows of event time and their aggregation.

Imports the contracts `processor` and `dag`, `columns`, `expressions` with its aggregates,
`relation`, `storage`, and of `processors` the folders `grouping`, `panes`, `sources` and
`stateful`.

Begin with `assign_windows` (rows with window bounds) and `timed_aggregate`, which emits groups
when a watermark completes them. `framed_aggregate` shares panes (`frames`) among overlapping
windows; `dense_frames` is the numeric fast path, the files named `spilled_*` are those on disk.
"""
