"""Calls and values of DuckDB's Python package that are no queries of relations.

Imports the basics, `calls`, `scripts` and `outcome_text` of `results`, `planner/parse` and, for
types, `python_function` of `engine/session`. Read `statements` first.
"""
