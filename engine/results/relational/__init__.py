"""The methods of relations, as in DuckDB's Python package.

Imports the basics, `calls` and `outcome_text` of `results`, `planner/parse/parameters.py`, and
`python_function` of `engine/session`. Read `methods` first; `compose` makes a query from other
ones, `reshaping` and `calls` have more methods, and `expressions` the objects for expressions.
"""
