"""What a text takes from the session that runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runnel.rendering.render import Rendering


def zone_text(rendering: Rendering) -> str:
    """The session's zone as a literal; `$zone` until the statement runs."""
    return "$zone" if rendering.session is None else rendering.dialect.text(rendering.session.zone)
