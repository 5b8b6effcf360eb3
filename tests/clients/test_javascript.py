"""The official JavaScript client: conversations of two turns, whole and streamed, by stored responses and by a conversation
object. It is in neither Debian nor PyPI, so OPENAI_JS names its built folder (dist). With its sources, Debian's `esbuild`
builds one: `esbuild src/index.ts --bundle --platform=node --outfile=dist/index.js`."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import TALK


def test_conversations(base):
    node = shutil.which("node")
    if node is None or "OPENAI_JS" not in os.environ:
        pytest.skip("needs node, and the client's folder in OPENAI_JS")
    ended = subprocess.run([node, Path(__file__).with_name("multi_turn.mjs"), base, TALK], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    got = json.loads(ended.stdout)
    first, later = got["texts"]
    assert first != later and got["streamed"] == got["kept"] == later and got["cached"] > 0
    assert got["said"] == [first, later] and got["items"] == ["hello 春", first, "more", later]
    assert got["topic"] == "春" and got["deleted"] and got["missing"] == ["NotFoundError", 404]
