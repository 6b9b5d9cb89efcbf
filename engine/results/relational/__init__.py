"""The methods of relations, as in DuckDB's Python package.

Imports the basics, `calls` and `outcome_text` of `results`, and `planner/parse/parameters.py`. Read
`methods` first; `calls` has the aggregates and window functions.
"""
