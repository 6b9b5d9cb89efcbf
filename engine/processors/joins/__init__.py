"""Joins of tables, and of a stream with a table.

Imports the contracts, `columns`, `expressions`, `relation`, `storage`, and of `processors` the
folders `grouping`, `sources` and `stateful`. Joins of two streams are in `stream_joins`.

Begin with `join`: input 0 is the build side, read to its end first; input 1 is the probe side.
`build_side` and `index` find matching rows, `spilled` handles a build side that exceeds memory,
`lookup` probes a keyed table row by row, and `refreshed` replaces its build side periodically.
"""
