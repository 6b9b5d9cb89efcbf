"""Memory that never has room, so that operators on streams put what they keep into files whenever
they are asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runnel.processors.stateful import state_account
from runnel.processors.time_windows import spilled_frames, spilled_groups
from runnel.storage.memory_budget import Memory, Reservation

PART = 2_000
"""About how many bytes are worked on at once."""


class EagerMemory(Memory):
    """With a limit that is never reached, and room for next to nothing at rest."""

    def __init__(self) -> None:
        super().__init__(1 << 30)

    @property
    def allowed(self) -> int:
        return PART


def spill_eagerly(monkeypatch: pytest.MonkeyPatch) -> EagerMemory:
    """All that can be in files is, after each batch; in small parts, so that a few rows make
    many."""
    memory = EagerMemory()
    wanted = Reservation.must_spill

    def must_spill(self: Reservation) -> bool:
        return self.bytes > 0 if self._memory is memory else bool(wanted.fget(self))  # type: ignore[attr-defined]

    monkeypatch.setattr(Reservation, "must_spill", property(must_spill))
    monkeypatch.setattr(state_account, "ACCOUNTED_ROWS", 1)
    for module in (spilled_groups, spilled_frames):
        monkeypatch.setattr(module, "LEAST_BYTES", PART // 4)
    return memory


def with_memory(made: tuple[Any, Any], memory: Memory) -> tuple[Any, Any]:
    """A processor, which was initialised, and its outbox: with that memory."""
    processor, outbox = made
    context = processor.context
    processor.init(outbox, replace(context, job=replace(context.job, memory=memory)))
    return processor, outbox
