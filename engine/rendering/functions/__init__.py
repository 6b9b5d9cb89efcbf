"""The functions that DuckDB and Spark run, by family: tables with a column for each engine.

Imports the expressions, the rest of `rendering`, and each engine's arithmetic. Begin with `table`,
which joins the families. A rule is a template, or a function of the same module.
"""
