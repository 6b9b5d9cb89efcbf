"""Common work of a plan done once: repeated scans and sub-plans.

Imports `planner/physical`, `planner/rewriting.py`, `engine/relation`, `engine/expressions`,
`engine/connector.py` and one file of `engine/processors/sources`.

Begin with `streams.share` and `tables.share_tables`; `merged_scans` merges scans of one stream
that read different columns.
"""
