"""The storage of a map: key index, immutable segments, and its log on disk.

Imports `keys`, `layout`, `values` and `scan` of `connectors/imap`, and the engine's basics,
`catalog`, `connector`, `columns`, `expressions` and `storage`. It knows nothing of mappings.

Begin with `store.MapStore`: rows in memory, and how readers get a consistent view. `durable`
adds the write-ahead log, checkpoints and recovery; `staging` has the rows of uncommitted
writes.
"""
