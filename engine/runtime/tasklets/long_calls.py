"""What is said of a cooperative processor that keeps its thread for long."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runnel.runtime.execution import Execution

logger = logging.getLogger("runnel.runtime")

LONG_CALL = 100_000_000
"""Nanoseconds beyond which a call of a cooperative processor is logged."""


def log_long_call(execution: Execution, vertex: str, nanoseconds: int) -> None:
    """A warning where the processor may be the user's; nobody can do anything about those of a SQL
    plan."""
    logger.log(
        logging.WARNING if execution.is_hand_built else logging.INFO,
        'a call of vertex "%s" took %d ms (job %d): '
        "a cooperative processor should return within a millisecond",
        vertex,
        nanoseconds // 1_000_000,
        execution.job.job_id,
    )
