"""Pushed streams: tables whose rows the program writes while queries read them.

Imports `conversion` of `connectors/files`, `partition_watermarks` of
`engine/processors/sources`, and the engine's basics, contracts, `columns` and `expressions`.

Begin with `table`: `StreamWriter` is the writer's side, `StreamTable` the readers' side, with a
bounded queue between them. `rows` checks written values; `event_time` has the watermarks that
a writer may set.
"""
