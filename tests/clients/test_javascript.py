"""The official JavaScript client: conversations of two turns, whole and streamed, by stored responses and by a conversation
object; structured outputs and tools by its helpers for zod. It is in neither Debian nor PyPI, so OPENAI_JS names its built folder. In its
sources, Debian's `esbuild` builds one, without `--bundle` for the helpers: `esbuild $(find src -name '*.ts') --platform=node --format=cjs
--outdir=PLACE/node_modules/openai`; zod's sources go next to it."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import tools
from conftest import TALK
from server import Server


def run(script, base, model):
    node = shutil.which("node")
    if node is None or "OPENAI_JS" not in os.environ:
        pytest.skip("needs node, and the client's folder in OPENAI_JS")
    ended = subprocess.run([node, Path(__file__).with_name(script), base, model], capture_output=True, text=True, timeout=500)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_conversations(base):
    got = run("multi_turn.mjs", base, TALK)
    first, later = got["texts"]
    assert first != later and got["streamed"] == got["kept"] == later and got["cached"] > 0
    assert got["said"] == [first, later] and got["items"] == ["hello 春", first, "more", later]
    assert got["topic"] == "春" and got["deleted"] and got["missing"] == ["NotFoundError", 404]


def test_structured_outputs_and_tools(tmp_path):
    """zod has parsed every object, so its values are of the schema."""
    if not Path(os.environ.get("OPENAI_JS", ""), "helpers/zod.js").exists():
        pytest.skip("needs the client's helpers and zod in OPENAI_JS")
    calls, marks, special = tools.FAMILIES["hermes"]
    tools.write(tmp_path / "hermes", tools.HEAD + tools.MESSAGE.replace("CALLS", calls) + tools.TAIL, marks, special)
    with Server("--models", tmp_path, "--max-tokens", "3000") as server:
        got = run("structured.mjs", f"http://127.0.0.1:{server.port}/v1", "hermes")
        server.wait_idle()
    assert got["parsed"] == got["streamed"] and got["parsed"]["result"]["kind"] in ("number", "text")
    assert got["said"]["unit"] in ("cm", "kg", None) and len(got["said"]["steps"]) <= 3
    assert got["called"] == got["whole"] == json.loads(got["deltas"]) and got["called"]["table_name"] in ("orders", "customers")
    assert set(got["asked"][0]) == set(got["called"])
    assert got["roles"] == ["user", "assistant", "tool"] and set(got["item"]) == {"table_name", "columns", "conditions"}
