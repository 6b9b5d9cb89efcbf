"""Finds the formats of dates and timestamps in a sample of a CSV file.

A format is used only if the sample proves it: of 01/02/2024 nothing says whether the day or the
month is first. A date with dots, as 01.02.2024, has the day first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_DAY = re.compile(
    r"(?P<first>\d{1,4})(?P<mark>[./-])(?P<second>\d{1,2})(?P=mark)(?P<last>\d{4}|\d{2})"
    r"(?P<time>(?P<gap>[ T])(?P<hour>\d{1,2}):\d{2}(?P<seconds>:\d{2}(?P<fraction>\.\d{1,6})?)?"
    r"(?P<half> ?[AaPp][Mm])?)?"
)


@dataclass(frozen=True, slots=True)
class TimeFormats:
    """The formats that a sample proves; None for what it has not, or not clearly.

    date: the format of dates, as strptime spells it.
    timestamp: the format of timestamps.
    unclear: an example of a date whose day and month can't be told apart.
    """

    date: str | None = None
    timestamp: str | None = None
    unclear: str | None = None


def found_formats(columns: Sequence[Sequence[str]]) -> TimeFormats:
    """The formats of the dates and timestamps in columns of text."""
    found: dict[bool, str] = {}
    unclear: dict[bool, tuple[str, str]] = {}
    for texts in columns:
        matches = [_DAY.fullmatch(text.strip()) for text in texts if text.strip()]
        if not matches or None in matches:
            continue
        known = [match for match in matches if match is not None]
        layout = _layout(known)
        if layout is None:
            continue
        is_timestamp, text, order = layout
        if order is not None:
            found.setdefault(is_timestamp, text)
        else:
            unclear.setdefault(is_timestamp, (text, known[0].group()))
    for is_timestamp, (text, _) in list(unclear.items()):
        # Dates and timestamps of one file have the day at the same position.
        other = found.get(not is_timestamp)
        if other is not None and is_timestamp not in found and other[2] == text[2]:
            found[is_timestamp] = _day_first(text) if other.startswith("%d") else text
    left = [example for kind, (_, example) in unclear.items() if kind not in found]
    return TimeFormats(found.get(False), found.get(True), left[0] if left else None)


def _layout(matches: Sequence[re.Match[str]]) -> tuple[bool, str, str | None] | None:
    """Whether the texts are timestamps, their format, and the order of day and month if it is
    clear. None if they are ISO, or have no common format."""
    keys = ("mark", "gap")
    flags = ("time", "seconds", "fraction", "half")
    kinds = {
        (*(match[key] for key in keys), *(match[flag] is None for flag in flags))
        for match in matches
    }
    if len(kinds) > 1:
        return None
    mark = matches[0]["mark"]
    firsts = [match["first"] for match in matches]
    lasts = {len(match["last"]) for match in matches}
    lengths = {len(text) == 4 for text in firsts}
    if len(lengths) > 1 or len(lasts) > 1 or any(len(text) == 3 for text in firsts):
        return None
    if lengths == {True}:
        if mark == "-" or lasts != {2}:
            return None  # ISO, or no date
        order: str | None = "year"
        day = f"%Y{mark}%m{mark}%d"
        numbers = [(int(match["second"]), int(match["last"])) for match in matches]
        if any(not 1 <= month <= 12 or not 1 <= number <= 31 for month, number in numbers):
            return None
    else:
        found = _order([(int(match["first"]), int(match["second"])) for match in matches], mark)
        if found is None:
            return None
        year = "%Y" if lasts == {4} else "%y"
        order = None if found == "unclear" else found
        if year == "%y" and order is None:
            return None
        pair = ("%d", "%m") if found == "day" else ("%m", "%d")
        day = mark.join((*pair, year))
    return matches[0]["time"] is not None, day + _clock(matches[0]), order


def _order(numbers: Sequence[tuple[int, int]], mark: str) -> str | None:
    """Which of the numbers is the day: "day" for the first one, "month" for the second one,
    "unclear", or None if these are no dates."""
    firsts, seconds = [first for first, _ in numbers], [second for _, second in numbers]
    if min(*firsts, *seconds) < 1 or max(*firsts, *seconds) > 31:
        return None
    is_day_first, is_month_first = max(firsts) > 12, max(seconds) > 12
    if is_day_first and is_month_first:
        return None
    if is_day_first or (mark == "." and not is_month_first):
        return "day"
    return "month" if is_month_first else "unclear"


def _day_first(text: str) -> str:
    return text.replace("%m", "%?").replace("%d", "%m").replace("%?", "%d")


def _clock(match: re.Match[str]) -> str:
    if match["time"] is None:
        return ""
    hour = "%I" if match["half"] else "%H"
    seconds = ":%S" if match["seconds"] else ""
    fraction = ".%f" if match["fraction"] else ""
    gap_of_half = " " if (match["half"] or "").startswith(" ") else ""
    half = f"{gap_of_half}%p" if match["half"] else ""
    return f"{match['gap']}{hour}:%M{seconds}{fraction}{half}"
