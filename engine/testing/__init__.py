"""The kit for testing processors and connectors, also those of users: no test needs to sleep or to guess.

`verify_processor` drives one processor under every hard condition; `ManualClock` holds the time still; `ScriptedSource`
reads a script with pauses and failures in it; `assert_rows` compares rows as SQL does.
"""

from __future__ import annotations

from runnel.testing.bench import Limits
from runnel.testing.clock import ManualClock
from runnel.testing.rows import assert_rows, rows_of
from runnel.testing.scripted import ABORT, EOF, PAUSE, Cue, ScriptedSource
from runnel.testing.verify import Verification, verify_processor

__all__ = [
    "ABORT",
    "EOF",
    "PAUSE",
    "Cue",
    "Limits",
    "ManualClock",
    "ScriptedSource",
    "Verification",
    "assert_rows",
    "rows_of",
    "verify_processor",
]
