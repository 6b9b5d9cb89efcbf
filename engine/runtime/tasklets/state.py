"""The states of a tasklet that calls a processor."""

from __future__ import annotations

from enum import IntEnum


class State(IntEnum):
    """What the next step does."""

    INIT = 0
    """Call `init` once; then RESTORE if there is state, else NEXT."""
    RESTORE = 1
    """Call `restore_snapshot` with each batch of state; then FINISH_RESTORE."""
    FINISH_RESTORE = 2
    """Call `finish_restore` until it returns True; then NEXT."""
    NEXT = 3
    """Look what is next: COMMIT if the snapshot is safe, SAVE if it is to be taken here, COMPLETE
    if there is no input (any more), ALARM if its time has come, else what the inputs say; FLUSH if
    they have nothing and something came; else wait."""
    PROCESS = 4
    """Call `process` until the inbox is empty; then NEXT."""
    WATERMARK = 5
    """Call `process_watermark` until it returns True; then NEXT."""
    FLUSH = 6
    """Call `flush` until it returns True; then NEXT."""
    FORWARD = 7
    """Call `flush` until it returns True, before IDLE `on_idle` too, then offer IDLE or a
    LatencyMarker to all outputs until it is accepted; then NEXT. Or offer ACTIVE, before what comes
    first after IDLE; then PROCESS or WATERMARK, or NEXT."""
    COMPLETE_EDGE = 8
    """Call `complete_edge` until it returns True; then NEXT."""
    COMPLETE = 9
    """Call `complete` until it returns True; then SAVE_LAST if snapshots are taken, else END.
    Between two calls, COMMIT or SAVE if the snapshot calls for it."""
    SAVE = 10
    """Call `save_snapshot` until it returns True; then PREPARE."""
    PREPARE = 11
    """Call `prepare_commit` until it returns True; then EMIT_BARRIER."""
    EMIT_BARRIER = 12
    """Offer the barrier to all outputs until it is accepted; then NEXT, after a terminal one
    AWAIT_COMMIT."""
    COMMIT = 13
    """Call `commit` until it returns True; then where it came from: NEXT or END."""
    AWAIT_COMMIT = 14
    """Wait until the snapshot is safe or given up; then COMMIT, and after it END."""
    SAVE_LAST = 15
    """Call `save_snapshot` until it returns True, for the snapshots to come; then AWAIT_COMMIT if a
    commit is outstanding, else END."""
    ALARM = 16
    """Call `on_alarm` until it returns True; then NEXT."""
    END = 17
    """The processor is closed and the outputs have their ends."""


# A global each, since an attribute of an Enum class is slow and a step reads several.
INIT, RESTORE, FINISH_RESTORE, NEXT, PROCESS, WATERMARK, FLUSH, FORWARD = list(State)[:8]
(
    COMPLETE_EDGE,
    COMPLETE,
    SAVE,
    PREPARE,
    EMIT_BARRIER,
    COMMIT,
    AWAIT_COMMIT,
    SAVE_LAST,
    ALARM,
    END,
) = list(State)[8:]
