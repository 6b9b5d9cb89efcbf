"""The thread that looks after calls outlives what fails in one of them."""

from __future__ import annotations

import pytest

from runnel.serving.open_calls import OpenCall, OpenCalls


class Context:
    """Of a client that is gone, or of which nothing can be learned."""

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    def is_cancelled(self) -> bool:
        if self.fails:
            raise RuntimeError("nothing is known")
        return True

    def peer(self) -> str:
        return ""


class Unsure(OpenCall):
    def is_stalled(self, now: float) -> bool:
        raise RuntimeError("no time")


def test_a_call_that_fails_keeps_no_other_from_its_end(caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> bool:
        raise RuntimeError("no chores")

    ended: list[int] = []
    calls = OpenCalls(failing, lambda peer: None)
    calls._is_closed = True  # no thread looks meanwhile
    calls.add(Unsure(Context(fails=True), lambda: ended.append(0)))
    calls.add(OpenCall(Context(), lambda: ended.append(1)))
    for _ in range(3):
        assert calls.look(), "it looks no more"
    assert ended == [1]
    failures = sorted(str(record.exc_info[1]) for record in caplog.records if record.exc_info)
    assert failures == ["no chores", "no time", "nothing is known"], "each is in the log once"
