"""What is said of a cooperative processor that keeps its thread for long."""

from __future__ import annotations

import logging

logger = logging.getLogger("runnel.runtime")

LONG_CALL = 100_000_000
"""Nanoseconds beyond which a call of a cooperative processor is logged."""


def log_long_call(vertex: str, nanoseconds: int, job_id: int, *, is_hand_built: bool) -> None:
    """A warning where the processor may be the user's; nobody can do anything about those of a SQL
    plan."""
    logger.log(
        logging.WARNING if is_hand_built else logging.INFO,
        'a call of vertex "%s" took %d ms (job %d): '
        "a cooperative processor should return within a millisecond",
        vertex,
        nanoseconds // 1_000_000,
        job_id,
    )
