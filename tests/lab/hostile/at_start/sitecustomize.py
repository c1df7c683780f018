"""Python imports this at start where this folder is on PYTHONPATH: the process then measures its event loop.

Only tests.lab.hostile.place sets the path and the variable. The workers of a proxy inherit both.
"""

import os
from pathlib import Path

if directory := os.environ.get("PENSTOCK_SLICES"):
    from tests.lab.hostile.slices import install

    install(Path(directory))
