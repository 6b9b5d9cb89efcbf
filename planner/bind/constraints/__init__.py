"""Constraints between tables: FOREIGN KEY.

Imports the binder of `planner/bind`, `planner/parse` and the contracts. Begin with `foreign_keys`.
"""
