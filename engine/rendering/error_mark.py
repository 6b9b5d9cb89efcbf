"""What the text of an engine's error shows of one that our SQL raises itself: its message begins
with the mark, so that whoever translates the engine's errors knows it for ours."""

from __future__ import annotations

ERROR_MARK = "[data error] "
