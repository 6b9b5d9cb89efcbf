"""The state signature: the description of a vertex's computation that is stored with its state.

Another query compares it with the signatures of its own vertices to decide whether it can use the
state.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from datetime import timedelta
from enum import Enum
from typing import Any

from runnel.base.frozen import frozen
from runnel.errors import ErrorCode, OperationalError
from runnel.relation.streams import WindowKind, WindowShape

VERSION = 1
"""The version of an encoded signature: of its member names and of the texts in it.

Version 1 isn't written.
"""


_NOTES = re.compile(
    r"\A(Fragment on \w+ \((?:only: .*?; )?)(?:(?:chosen for|differs|stopped by): .*?; )+(?=sql: )",
    re.DOTALL,
)
"""Matches the notes in a fragment's text that explain to the user why another engine runs it."""
_MESSAGES = re.compile(r"'\[data error\] (?:[^']|'')*'(?:, (?:'[^']*'|char\(\d+\)))*")
"""Matches the messages of errors that the SQL of a fragment may raise."""


class Form(Enum):
    """The kind of rows that the state of a vertex consists of. The values are stored.

    OTHER: state that doesn't depend on windows of the vertex.
    GROUPS: aggregate states of windows that don't overlap.
    FRAMES: aggregate states of the panes of overlapping windows.
    WINDOWS: aggregate states of overlapping windows, one for each window.
    SESSIONS: aggregate states of sessions.
    SESSION_ROWS: the rows of sessions.
    ROWS: rows of the inputs.
    """

    OTHER = "other"
    GROUPS = "groups"
    FRAMES = "frames"
    WINDOWS = "windows"
    SESSIONS = "sessions"
    SESSION_ROWS = "session rows"
    ROWS = "rows"


@frozen(kw_only=True)
class StateWindows:
    """The windows to which aggregate states belong.

    shape: the windows; the size of a session window is its gap.
    is_integer: whether the event time is an integer column, not a temporal one.
    keys: the other grouping keys, as texts.
    key_indexes: for each key column of the state, the index of its key in `keys`, or −1, −2, −3 for
        window_time, window_end and window_start.
    bound: the Arrow type of window_time, window_end and window_start.
    every: EMIT EVERY in microseconds of processing time; None without.
    lateness: ALLOWED LATENESS in units of event time.
    """

    shape: WindowShape
    is_integer: bool
    keys: tuple[str, ...] = ()
    key_indexes: tuple[int, ...] = ()
    bound: str = ""
    every: int | None = None
    lateness: int = 0

    def span(self, units: int) -> str:
        """Format a distance in event time for messages."""
        return str(units) if self.is_integer else str(timedelta(microseconds=units))

    def __str__(self) -> str:
        shape = self.shape
        if shape.kind is WindowKind.SESSION:
            return f"sessions with a gap of {self.span(shape.size)}"
        text = f"{shape.kind.name} windows of {self.span(shape.size)}"
        if shape.kind is not WindowKind.TUMBLE:
            text += f" each {self.span(shape.step)}"
        return text + (f" from {self.span(shape.offset)} on" if shape.offset else "")


@frozen(kw_only=True)
class StateSignature:
    """The state signature of a vertex. A signature of an earlier version has only the text.

    text: the identity of the vertex (`planner/identity/nodes.py`), with the windows below it.
    name: the name that a hint assigns to the state; "" without a hint.
    form: the kind of rows that the state consists of.
    keeps: whether the vertex retains state.
    same: if the vertex retains state, the properties that must not change, by name.
    reads: the tables that the rows come from.
    watermarks: a description of each watermark, by its number.
    windows: the windows, for all forms except OTHER.
    columns: if the state consists of rows of the inputs, the columns of each input with their
        types.
    column_names: the names of these columns in the batches of the state.
    holds: the unbounded tables whose rows the state was made from.
    """

    text: str
    name: str = ""
    form: Form = Form.OTHER
    keeps: bool = False
    same: Mapping[str, str] = field(default_factory=dict)
    reads: tuple[str, ...] = ()
    watermarks: Mapping[int, str] = field(default_factory=dict)
    windows: StateWindows | None = None
    columns: tuple[tuple[str, ...], ...] = ()
    column_names: tuple[tuple[str, ...], ...] = ()
    holds: tuple[str, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether the signature has more than the text."""
        return bool(self.same)

    def encode(self) -> str:
        """Encode the signature as a text for `decode`."""
        if not self.is_known:
            return self.text
        value = {
            "text": self.text,
            "name": self.name,
            "form": self.form.value,
            "keeps": self.keeps,
            "same": self.same,
            "reads": self.reads,
            "watermarks": self.watermarks,
            "windows": None if self.windows is None else _encode_windows(self.windows),
            "columns": self.columns,
            "column_names": self.column_names,
            "holds": self.holds,
        }
        return json.dumps(value, ensure_ascii=False)

    @staticmethod
    def decode(text: str) -> StateSignature:
        """Decode a text of `encode`.

        Any other text is the whole signature as an earlier version stored it. Raises
        OperationalError for a signature of a later version.
        """
        if not text.startswith("{"):
            return StateSignature(text=text)
        value = json.loads(text)
        if value.get("version", VERSION) > VERSION:
            raise OperationalError(
                "a state signature was written by a later version of Runnel",
                code=ErrorCode.GENERIC,
                detail=(
                    f"its version is {value['version']}, "
                    f"and this one knows versions up to {VERSION}"
                ),
                hint="use that version or a later one",
            )
        windows = value["windows"]
        return StateSignature(
            text=_without_prose(value["text"]),
            name=value.get("name", ""),
            form=Form(value["form"]),
            keeps=value["keeps"],
            same={name: _without_prose(of) for name, of in value["same"].items()},
            reads=tuple(value["reads"]),
            watermarks={int(number): of for number, of in value["watermarks"].items()},
            windows=None if windows is None else _decode_windows(windows),
            columns=tuple(tuple(names) for names in value.get("columns", ())),
            column_names=tuple(tuple(names) for names in value.get("column_names", ())),
            holds=tuple(value.get("holds", ())),
        )


def _without_prose(text: str) -> str:
    """Remove the notes and messages from the text of a fragment, as no state depends on them.

    Any other text is returned unchanged.
    """
    if not text.startswith("Fragment on "):
        return text
    return _MESSAGES.sub("''", _NOTES.sub(r"\1", text))


def _encode_windows(windows: StateWindows) -> dict[str, Any]:
    shape = windows.shape
    return {
        "shape": {
            "kind": shape.kind.value,
            "size": shape.size,
            "step": shape.step,
            "offset": shape.offset,
        },
        "is_integer": windows.is_integer,
        "keys": windows.keys,
        "places": windows.key_indexes,
        "bound": windows.bound,
        "every": windows.every,
        "lateness": windows.lateness,
    }


def _decode_windows(value: dict[str, Any]) -> StateWindows:
    shape = value["shape"]
    return StateWindows(
        shape=WindowShape(WindowKind(shape["kind"]), shape["size"], shape["step"], shape["offset"]),
        is_integer=value["is_integer"],
        keys=tuple(value["keys"]),
        key_indexes=tuple(value["places"]),
        bound=value["bound"],
        every=value["every"],
        lateness=value["lateness"],
    )
