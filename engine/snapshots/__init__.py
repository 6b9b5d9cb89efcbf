"""Snapshots on disk: `file_store` keeps those of one job in a folder, `manifest` says what is in one, `unfinished` writes them,
and `background` is the thread on which that is done. docs/design/014-snapshots.md tells the whole story.
"""
