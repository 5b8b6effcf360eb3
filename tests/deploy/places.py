"""Where things are; the HTTP tests' client and server are used here too."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
sys.path.append(str(ROOT / "tests" / "http"))
