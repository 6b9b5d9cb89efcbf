"""Whether a vertex may go on with state of other windows, and what that means for its first
results.

Windows of a fixed size are made of frames, pieces of time of one length that lie side by side; of
TUMBLE a window is a frame. A frame of the old windows goes to the new one in which it ends. That is
exact where new frames consist of whole old ones. What windows before didn't need any more is gone,
so new ones that begin earlier than those miss it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from runnel.base.frozen import frozen
from runnel.relation.state_identity import Form, Meaning, Windows
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
    """How state becomes that of other windows. `text` says what changes, `notes` what to expect of
    the first results.
    `is_same`: the windows are the same, only when results come changes."""

    before: Windows
    after: Windows
    forms: tuple[Form, Form]
    text: str
    notes: tuple[str, ...]
    is_same: bool = False


@frozen
class Refusal:
    """Why state can't be used, as a clause."""

    reason: str


def change_of(before: Meaning, after: Meaning) -> Change | Refusal:
    """How a vertex that was for `before` goes on as one for `after`, both of which have windows."""
    old, new = before.windows, after.windows
    assert old is not None and new is not None
    forms = (before.form, after.form)
    if forms[0] is not forms[1] and not (set(forms) <= set(_FIXED)):
        return Refusal(_other_form(*forms))
    different = difference(_without_columns(before, after), _without_columns(after, before))
    if different is not None:
        return Refusal(different)
    if forms[0] in _FIXED:
        return _of_fixed_size(old, new, forms)
    return _of_sessions(old, new, forms)


def _without_columns(one: Meaning, other: Meaning) -> Mapping[str, str]:
    """What may not change. Columns may, where those of both are known one by one."""
    if not one.columns or not other.columns:
        return one.same
    return {part: text for part, text in one.same.items() if part != "columns"}


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> str | None:
    """What may not change and does, as a clause; None for nothing."""
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


def _of_fixed_size(old: Windows, new: Windows, forms: tuple[Form, Form]) -> Change | Refusal:
    if sorted(old.keys) != sorted(new.keys):
        return Refusal(
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
        return Refusal(
            f"with {clause} each of its windows, which overlap, "
            "has a state of its own that can't be taken apart"
        )
    notes = [*_frame_notes(old, new), *_reach_notes(old, new)]
    if new.lateness:
        notes.append("windows that ended before the change take no late rows")
    exact = (
        () if notes else ("exact from the first window on: new windows are made of whole old ones",)
    )
    return Change(old, new, forms, _windows_text(old, new), (*exact, *notes))


def _windows_text(old: Windows, new: Windows) -> str:
    if old.shape == new.shape:
        return (
            f"as results of {new} come "
            f"{'more than once' if new.every is not None or new.lateness else 'once'} now"
        )
    return f"from {old} to {new}"


def _frames(shape: WindowShape) -> tuple[int, int]:
    """The length of the frames of windows, and where they begin, within one length."""
    length = gcd(shape.size, shape.step) if shape.kind is not WindowKind.TUMBLE else shape.size
    return length, shape.offset % length


def fits(old: WindowShape, new: WindowShape) -> bool:
    """Whether each new frame consists of whole old ones."""
    (before, start), (after, other) = _frames(old), _frames(new)
    return after % before == 0 and (other - start) % before == 0


def _frame_notes(old: Windows, new: Windows) -> list[str]:
    if fits(old.shape, new.shape):
        return []
    (before, start), (after, other) = _frames(old.shape), _frames(new.shape)
    frames = f"of {_from(old, before, start)} don't fit into frames of {_from(new, after, other)}"
    return [
        (
            "rows from before the change may count in a later window than that of their time: "
            f"frames {frames}, and an old frame "
            "goes as a whole to the new one in which it ends"
        )
    ]


def _from(windows: Windows, length: int, start: int) -> str:
    return windows.span(length) + (f" from {windows.span(start)} on" if start else "")


def missing(old: Windows, new: Windows) -> int:
    """How much earlier than all that is kept a new window may begin that is still to come; at most
    0 for not at all.

    After watermark m those windows count that end after m: the earliest begins at the first start
    beyond m − size. That is least where an old start has just gone out of reach; `rest` is by how
    much the grids of starts miss each other then."""
    size, period, offset = _starts(old.shape)
    new_size, new_period, new_offset = _starts(new.shape)
    kept = size + old.lateness
    common = gcd(period, new_period)
    rest = (kept + offset - new_size - new_offset) % common
    return -(kept - new_size - period + common - rest)


def _starts(shape: WindowShape) -> tuple[int, int, int]:
    """How long rows are kept for windows of this shape, how far apart these begin, and where."""
    return shape.size, shape.step if shape.kind is WindowKind.HOP else shape.size, shape.offset


def _reach_notes(old: Windows, new: Windows) -> list[str]:
    less = missing(old, new)
    if less <= 0:
        return []
    return [
        (
            f"the first windows may be incomplete: they begin up to {new.span(less)} before the "
            "oldest rows that are still kept"
        )
    ]


def _emission_text(old: Windows, new: Windows) -> str:
    if old.lateness != new.lateness:
        return (
            f"as it takes late rows for {new.span(new.lateness)}, where it was "
            f"{old.span(old.lateness)}"
        )
    if old.every != new.every:
        return (
            "as early results come at other times"
            if new.every is not None
            else "as no early results come any more"
        )
    return ""


def _emission_notes(old: Windows, new: Windows) -> tuple[str, ...]:
    if new.lateness > old.lateness:
        return ("windows for which rows were too late before the change stay as they were given",)
    if new.lateness < old.lateness:
        return ("rows that are late for windows that were given are too late now",)
    return ()


def _of_sessions(old: Windows, new: Windows, forms: tuple[Form, Form]) -> Change:
    notes = []
    gap, before = new.shape.size, old.shape.size
    if gap > before:
        notes.append("sessions that are held are brought together where they touch now")
        if old.lateness:
            notes.append(
                "one that was given, and isn't over any more, comes again with its new end"
            )
        else:
            notes.append(
                "one that was given before the change isn't continued: rows that would belong to "
                "it begin another"
            )
    elif gap < before and forms[0] is Form.SESSIONS:
        notes.append("sessions that are held are not divided, only their ends come sooner")
    elif gap < before:
        notes.append(
            "sessions that are held are divided where they would be now; those that are over then "
            "come at once, too late for a GROUP BY, OVER or ORDER BY behind them"
        )
    if gap == before:
        return Change(
            old, new, forms, _emission_text(old, new), _emission_notes(old, new), is_same=True
        )
    if new.lateness:
        notes.append("rows that were too late before the change stay so")
    return Change(old, new, forms, f"from {old} to {new}", tuple(notes))
