"""A kit to test processors and connectors, also for users' own; no test sleeps.

`verify_processor` drives one processor under every hard condition; `ManualClock` stops time
until a test moves it; `ScriptedSource` follows a script with pauses and failures;
`assert_rows` compares rows as SQL does.

Imports the contracts (`processor`, `connector`, `dag`), `expressions` and `storage`, never the
runtime. Begin with `verify`; `bench` has the inbox, outbox and saved state that it uses.
"""

from __future__ import annotations

from runnel.testing.bench import BenchLimits
from runnel.testing.clock import ManualClock
from runnel.testing.rows import assert_rows, rows_of
from runnel.testing.scripted import ABORT, EOF, PAUSE, Cue, ScriptedSource
from runnel.testing.verify import Verification, verify_processor

__all__ = [
    "ABORT",
    "EOF",
    "PAUSE",
    "BenchLimits",
    "Cue",
    "ManualClock",
    "ScriptedSource",
    "Verification",
    "assert_rows",
    "rows_of",
    "verify_processor",
]
