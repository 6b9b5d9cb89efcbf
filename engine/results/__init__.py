"""The rows of a statement as Python objects, and a query's progress.

Imports the engine's basics, `expressions`, `relation`, `runtime`, and the result queue of
`engine/processors/sinks`.

Begin with `rows.Result`: batches in; tuples, Arrow, pandas or Polars out. `notebook` renders a
cursor in a notebook without consuming rows; `progress` is the value that a progress display shows.
"""
