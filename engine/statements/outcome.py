"""What running a statement gives."""

from __future__ import annotations

from runnel.results.rows import Result

Outcome = Result | int
"""Rows, or the number of rows written; −1 for a statement that has no such number."""
