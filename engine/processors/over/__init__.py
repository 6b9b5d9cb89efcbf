"""OVER: window functions on tables and on ordered streams.

Imports the contracts, `columns`, `expressions` with its aggregates, `relation`, `storage`,
`duckdb`, `rendering` and `foreign` (for `on_duckdb`), and of `processors` the root files and
`grouping`, `sources`, `stateful` and `stream_joins`.

Begin with `window`, the operator on tables, and `calls`, which arranges rows by partition and
order. `frames` computes ranges of rows; `aggregates` evaluates them, if need be by a
`segment_tree`. On streams, `streamed` and `by_watermark` emit as watermarks allow.
docs/design/007-windows.md has the design.
"""
