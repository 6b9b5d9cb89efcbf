"""Memory budget, spilled rows, and files that survive a crash.

Imports the engine's basics and `engine/columns`.

Begin with `memory_budget.Memory`: an operator reserves bytes, and spills when it gets none.
`spill` writes rows that memory has no room for (docs/design/009-memory.md). `durable_files` has
fsync, atomic replacement, and JSON with a checksum; `write_gate` pauses durable writes, so that a
consistent set of files can be listed.
"""
