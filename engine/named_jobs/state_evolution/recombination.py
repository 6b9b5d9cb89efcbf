"""Whether a vertex can use state of other windows, and how that affects its first results.

Windows of a fixed size consist of panes: adjacent sections of time of equal length; a window of
TUMBLE is one pane. A pane of the old windows is added to the new pane in which it ends. That is
exact if each new pane consists of whole old panes. State that the old windows no longer needed was
deleted, so new windows that begin earlier lack it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from runnel.base.frozen import frozen
from runnel.relation.state_identity import Form, StateSignature, StateWindows
from runnel.relation.streams import WindowKind, WindowShape

_FIXED = (Form.GROUPS, Form.FRAMES, Form.WINDOWS)
_PART_NAMES = {
    "by": "groups by",
    "of": "divides by",
    "compute": "computes",
    "time": "goes by",
    "types": "has values of type",
}


@frozen
class Change:
    """The conversion of state to other windows.

    before, after: old and new windows.
    forms: old and new form of the state.
    text: description of the change.
    notes: remarks on the first results.
    is_same: the windows are equal; only when results are emitted changes.
    """

    before: StateWindows
    after: StateWindows
    forms: tuple[Form, Form]
    text: str
    notes: tuple[str, ...]
    is_same: bool = False


@frozen
class RecombinationRefusal:
    """The reason why state cannot be used, as a clause."""

    reason: str


def change_of(before: StateSignature, after: StateSignature) -> Change | RecombinationRefusal:
    """The conversion of state of `before` to state of `after`, both of which have windows."""
    old, new = before.windows, after.windows
    assert old is not None and new is not None
    forms = (before.form, after.form)
    if forms[0] is not forms[1] and not (set(forms) <= set(_FIXED)):
        return RecombinationRefusal(_other_form(*forms))
    different = difference(_without_columns(before, after), _without_columns(after, before))
    if different is not None:
        return RecombinationRefusal(different)
    if forms[0] in _FIXED:
        return _of_fixed_size(old, new, forms)
    return _of_sessions(old, new, forms)


def _without_columns(one: StateSignature, other: StateSignature) -> Mapping[str, str]:
    """The properties that must not change. Columns may change if both plans know them one by
    one."""
    if not one.columns or not other.columns:
        return one.same
    return {part: text for part, text in one.same.items() if part != "columns"}


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> str | None:
    """The first property that must not change and does, as a clause; None: there is none."""
    for part, text in after.items():
        if before.get(part) != text and part in _PART_NAMES:
            return (
                f"it {_PART_NAMES[part]} {text or 'nothing'}, where it was "
                f"{before.get(part) or 'nothing'}"
            )
    return None if dict(before) == dict(after) else "its state is of another kind"


def _other_form(before: Form, after: Form) -> str:
    texts = {Form.SESSIONS: "states of sessions", Form.SESSION_ROWS: "the rows of sessions"}
    return (
        f"{texts.get(before, 'states of windows of a fixed size')} can't become "
        f"{texts.get(after, 'such states')}"
    )


def _of_fixed_size(
    old: StateWindows, new: StateWindows, forms: tuple[Form, Form]
) -> Change | RecombinationRefusal:
    if sorted(old.keys) != sorted(new.keys):
        return RecombinationRefusal(
            f"it groups by {', '.join(new.keys) or 'nothing else'}, where it was "
            f"{', '.join(old.keys) or 'nothing'}"
        )
    if old.shape == new.shape and (forms[0] is forms[1]):
        return Change(
            old, new, forms, _emission_text(old, new), _emission_notes(old, new), is_same=True
        )
    if forms[0] is Form.WINDOWS:
        clause = (
            "EMIT EVERY"
            if old.every is not None
            else "ALLOWED LATENESS"
            if old.lateness
            else "the query that it had"
        )
        return RecombinationRefusal(
            f"with {clause} each of its windows, which overlap, "
            "has a state of its own that can't be split"
        )
    notes = [*_frame_notes(old, new), *_reach_notes(old, new)]
    if new.lateness:
        notes.append("windows that ended before the change accept no late rows")
    exact = (
        () if notes else ("exact from the first window on: new windows consist of whole old ones",)
    )
    return Change(old, new, forms, _windows_text(old, new), (*exact, *notes))


def _windows_text(old: StateWindows, new: StateWindows) -> str:
    if old.shape == new.shape:
        return (
            f"as results of {new} are now emitted "
            f"{'more than once' if new.every is not None or new.lateness else 'once'}"
        )
    return f"from {old} to {new}"


def _frames(shape: WindowShape) -> tuple[int, int]:
    """The length of the panes of windows, and their offset, at least 0 and less than the length."""
    length = gcd(shape.size, shape.step) if shape.kind is not WindowKind.TUMBLE else shape.size
    return length, shape.offset % length


def fits(old: WindowShape, new: WindowShape) -> bool:
    """Whether each new pane consists of whole old panes."""
    (before, start), (after, other) = _frames(old), _frames(new)
    return after % before == 0 and (other - start) % before == 0


def _frame_notes(old: StateWindows, new: StateWindows) -> list[str]:
    if fits(old.shape, new.shape):
        return []
    (before, start), (after, other) = _frames(old.shape), _frames(new.shape)
    panes = f"of {_from(old, before, start)} don't fit into panes of {_from(new, after, other)}"
    return [
        (
            "rows from before the change may count in a later window than the one of their time: "
            f"panes {panes}, and an old pane "
            "is added as a whole to the new one in which it ends"
        )
    ]


def _from(windows: StateWindows, length: int, start: int) -> str:
    return windows.span(length) + (f" from {windows.span(start)} on" if start else "")


def missing(old: StateWindows, new: StateWindows) -> int:
    """How much earlier than the oldest stored row a future new window may begin; 0 or less: not
    earlier.

    After watermark m the windows that end after m are open: the earliest begins at the first start
    after m − size. The difference is largest right after the oldest rows were deleted with an old
    window; `rest` is the distance of the two grids of starts then.

    For example, from TUMBLE 10 to TUMBLE 20: with the watermark at 10 the rows before 10 have been
    deleted, but the new window from 0 to 20 is open, so 10 are missing. From TUMBLE 20 to TUMBLE 10
    nothing is: the result is 0."""
    size, period, offset = _starts(old.shape)
    new_size, new_period, new_offset = _starts(new.shape)
    stored = size + old.lateness
    common = gcd(period, new_period)
    rest = (stored + offset - new_size - new_offset) % common
    return -(stored - new_size - period + common - rest)


def _starts(shape: WindowShape) -> tuple[int, int, int]:
    """For windows of this shape: how long rows are stored, the distance of their starts, and the
    offset of the starts."""
    return shape.size, shape.step if shape.kind is WindowKind.HOP else shape.size, shape.offset


def _reach_notes(old: StateWindows, new: StateWindows) -> list[str]:
    less = missing(old, new)
    if less <= 0:
        return []
    return [
        (
            f"the first windows may be incomplete: they begin up to {new.span(less)} before the "
            "oldest rows that are still stored"
        )
    ]


def _emission_text(old: StateWindows, new: StateWindows) -> str:
    if old.lateness != new.lateness:
        return (
            f"as it accepts late rows for {new.span(new.lateness)}, where it was "
            f"{old.span(old.lateness)}"
        )
    if old.every != new.every:
        return (
            "as early results are emitted at other times"
            if new.every is not None
            else "as early results are no longer emitted"
        )
    return ""


def _emission_notes(old: StateWindows, new: StateWindows) -> tuple[str, ...]:
    if new.lateness > old.lateness:
        return ("windows for which rows were too late before the change stay as they were emitted",)
    if new.lateness < old.lateness:
        return ("rows that are late for emitted windows are now too late",)
    return ()


def _of_sessions(old: StateWindows, new: StateWindows, forms: tuple[Form, Form]) -> Change:
    notes = []
    gap, before = new.shape.size, old.shape.size
    if gap > before:
        notes.append("buffered sessions that now touch are merged")
        if old.lateness:
            notes.append("an emitted session that is open again is emitted again with its new end")
        else:
            notes.append(
                "a session emitted before the change is not continued: rows that would belong to "
                "it begin a new one"
            )
    elif gap < before and forms[0] is Form.SESSIONS:
        notes.append("buffered sessions are not split, they only end sooner")
    elif gap < before:
        notes.append(
            "buffered sessions are split by the new gap; those that have ended by it are emitted "
            "at once, too late for a GROUP BY, OVER or ORDER BY after them"
        )
    if gap == before:
        return Change(
            old, new, forms, _emission_text(old, new), _emission_notes(old, new), is_same=True
        )
    if new.lateness:
        notes.append("rows that were too late before the change stay so")
    return Change(old, new, forms, f"from {old} to {new}", tuple(notes))
