"""Hides passwords in texts for people."""

from __future__ import annotations

import re

HIDDEN = "****"
"""Replacement for a hidden value."""
_USER = re.compile(r"""(://[^/:@\s]*):[^\s'",;]+@""")
"""A password may contain characters that end an address, such as "/" and "@". Hiding too much is
preferred to hiding too little."""
_PARAMETER = re.compile(
    r"""(\b(?:password|passwd|pwd|secret|token|sig|(?:x-amz-)?(?:signature|credential|security-token)|accountkey|sharedaccesskey)=)"""
    r"""[^&;\s'"]+""",
    re.IGNORECASE,
)


def without_password(text: str) -> str:
    """A text for people, such as a URL, with passwords hidden."""
    return _PARAMETER.sub(rf"\1{HIDDEN}", _USER.sub(rf"\1:{HIDDEN}@", text))
