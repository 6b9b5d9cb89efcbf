"""The rows of a statement as Python objects, and a query's progress.

Imports the engine's basics, `expressions`, `relation`, `runtime`, the result queue of
`engine/processors/sinks`, and `planner/parse/tokens.py`.

Begin with `rows.Result`: batches in; tuples, Arrow, pandas or Polars out. `display` shows a cursor
at a prompt and `notebook` in a notebook, both without consuming rows; `table_text` prints rows in
any mode, also for a command line; `progress` is the value that a progress display shows.
"""
