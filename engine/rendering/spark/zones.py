"""Local time in the session's zone, in Spark, whatever the zone of the Spark session is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.rendering.session import zone_text

if TYPE_CHECKING:
    from runnel.rendering.render import Rendering


def local_time(rendering: Rendering, utc: str, zone: str | None = None) -> str:
    """A TIMESTAMP_NTZ in UTC as local time."""
    return f"convert_timezone('UTC', {zone or zone_text(rendering)}, {utc})"
