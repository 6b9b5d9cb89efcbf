"""What a vertex of a job is for, as it is kept beside its state: so that another query knows
whether it may have that state."""

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
"""The version of an encoded meaning: of its names, and of the texts in it. The first one isn't
written."""


_NOTES = re.compile(
    r"\A(Fragment on \w+ \((?:only: .*?; )?)(?:(?:chosen for|differs|stopped by): .*?; )+(?=sql: )",
    re.DOTALL,
)
"""The notes in the text of a fragment that tell people why another engine runs it."""
_MESSAGES = re.compile(r"'\[data error\] (?:[^']|'')*'(?:, (?:'[^']*'|char\(\d+\)))*")
"""The messages of errors that the SQL of a fragment may raise."""


class Form(Enum):
    """What the state of a vertex consists of. GROUPS: states of windows that lie side by side;
    FRAMES: states of the pieces of time that windows are made of; WINDOWS: a state for each of the
    windows that overlap; SESSIONS: states of sessions;
    SESSION_ROWS: the rows of sessions; ROWS: rows of the inputs; OTHER: something that doesn't
        depend on windows of its own."""

    OTHER = "other"
    GROUPS = "groups"
    FRAMES = "frames"
    WINDOWS = "windows"
    SESSIONS = "sessions"
    SESSION_ROWS = "session rows"
    ROWS = "rows"


@frozen(kw_only=True)
class Windows:
    """The windows that states are of. `keys` are the other keys that they are grouped by, as texts;
    `places` say what the key columns of the state are: the number of one of `keys`, or −1, −2, −3
    for window_time, window_end and window_start. `bound` is the Arrow type of these. `every` and
    `lateness` are as in physical_streams.TimedAggregate. Of sessions `shape.size` is the gap."""

    shape: WindowShape
    is_integer: bool
    keys: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    bound: str = ""
    every: int | None = None
    lateness: int = 0

    def span(self, units: int) -> str:
        """A distance in event time as people read it."""
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
class Meaning:
    """`text`: the identity of a vertex (`planner.identity_nodes`), with the windows below it.
    `same`: what of that may not change, part by part,
    where it keeps state. `reads`: the tables that its rows are from. `watermarks`: by their
    numbers, what they are of.
    `windows`: for all forms but OTHER. `name`: what a hint calls it. One that an earlier version
        made has only the text.
    `columns`: where the state consists of rows of the inputs, the columns of each input, with their
    types, and `column_names` what these are called in its batches.
    `holds`: the tables without end whose rows the state is made of."""

    text: str
    name: str = ""
    form: Form = Form.OTHER
    keeps: bool = False
    same: Mapping[str, str] = field(default_factory=dict)
    reads: tuple[str, ...] = ()
    watermarks: Mapping[int, str] = field(default_factory=dict)
    windows: Windows | None = None
    columns: tuple[tuple[str, ...], ...] = ()
    column_names: tuple[tuple[str, ...], ...] = ()
    holds: tuple[str, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether there is more than the text."""
        return bool(self.same)

    def encode(self) -> str:
        """As a text, for `decode`."""
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
    def decode(text: str) -> Meaning:
        """What was encoded; a text that wasn't is what an earlier version kept."""
        if not text.startswith("{"):
            return Meaning(text=text)
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
        return Meaning(
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
    """The text of a fragment without the words for people in it, on which no state depends; any
    other text as it is."""
    if not text.startswith("Fragment on "):
        return text
    return _MESSAGES.sub("''", _NOTES.sub(r"\1", text))


def _encode_windows(windows: Windows) -> dict[str, Any]:
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
        "places": windows.places,
        "bound": windows.bound,
        "every": windows.every,
        "lateness": windows.lateness,
    }


def _decode_windows(value: dict[str, Any]) -> Windows:
    shape = value["shape"]
    return Windows(
        shape=WindowShape(WindowKind(shape["kind"]), shape["size"], shape["step"], shape["offset"]),
        is_integer=value["is_integer"],
        keys=tuple(value["keys"]),
        places=tuple(value["places"]),
        bound=value["bound"],
        every=value["every"],
        lateness=value["lateness"],
    )
