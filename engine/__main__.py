"""`python -m runnel`: the command line."""

from __future__ import annotations

import sys

from runnel.shell.command import main

sys.exit(main())
