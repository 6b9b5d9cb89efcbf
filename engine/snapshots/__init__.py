"""Snapshots on disk: the state of a job at a barrier, with checksums.

Imports the engine's basics, `columns` and `storage`. The runtime writes snapshots through the
interface in `store`.

Begin with `store.SnapshotStore`, then `file_store`, which has the snapshots of one job in a
folder. `manifest` describes one snapshot, `unfinished` writes it, `retained_state` reuses
unchanged state, and `background` is the thread that does the work.
docs/design/014-snapshots.md has the design.
"""
