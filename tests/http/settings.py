"""The program under test, and the model that it serves."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINNET = Path(os.environ.get("LINNET", ROOT / "build" / "linnet")).resolve()
MODEL_DIR = Path(os.environ.get("LINNET_MODEL_DIR", ROOT / "weights" / "couplet")).resolve()
MODEL = MODEL_DIR.name

# The address sanitizer takes some ten times as long.
SANITIZED = LINNET.exists() and b"__asan_init" in LINNET.read_bytes()
