"""Relational sub-plans as the SQL of another engine."""
