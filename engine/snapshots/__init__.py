"""Snapshots on disk: `file_store` keeps those of one job in a folder, `manifest` says what is in one, and `writer` writes them
on a thread of its own. docs/design/014-snapshots.md tells the whole story.
"""
