"""The end of a job: rows to the reader of a query, or to a table.

Imports the contracts `processor`, `connector` and `dag`, `columns`, `expressions`, and of
`processors` the folders `sources` and `stateful`.

Begin with `write`: all rows of a statement become visible at its end, or none. `stream_write`
writes continuously; `durable_write` stages rows at barriers and commits them with snapshots
(docs/design/015-sinks.md). `result_queue` passes rows to a query's reader.
"""
