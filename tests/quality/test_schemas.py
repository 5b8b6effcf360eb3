"""10,000 answers over 300 schemas, each valid by Python's jsonschema: the schemas of JSON-Schema-Test-Suite that the server takes, and
schemas made at random. Any other schema of the suite is refused by name.

LINNET_SCHEMA_SUITE names a copy of the suite; without it git fetches one.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "http"))
import shapes  # noqa: E402
import text_model  # noqa: E402
from client import call  # noqa: E402
from server import Server  # noqa: E402

jsonschema = pytest.importorskip("jsonschema", reason="the jsonschema package is not installed")

SUITE = "https://github.com/json-schema-org/JSON-Schema-Test-Suite"
MODELS, ANSWERS, LEAST_SCHEMAS, LEAST_ANSWERS = ("bytes", "words"), 18, 300, 10_000


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """Each schema of the draft once."""
    place = os.environ.get("LINNET_SCHEMA_SUITE")
    if place is None:
        place = tmp_path_factory.mktemp("suite") / "suite"
        try:
            subprocess.run(["git", "clone", "--quiet", "--depth", "1", SUITE, place], check=True, capture_output=True, timeout=60,
                           env=os.environ | {"GIT_TERMINAL_PROMPT": "0"})
        except (OSError, subprocess.SubprocessError) as error:
            pytest.skip(f"{SUITE} cannot be fetched, and LINNET_SCHEMA_SUITE names no copy: {error}")
    cases = [case["schema"] for file in sorted(Path(place, "tests/draft2020-12").glob("*.json")) for case in json.loads(file.read_text())]
    return [json.loads(text) for text in dict.fromkeys(json.dumps(schema) for schema in cases)]


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    text_model.write_bytes(path / "bytes", context=6000)
    text_model.write_bpe(path / "words", context=6000)
    with Server("--models", path, "--max-tokens", "5000", "--slots", "8", "--max-n", "64") as server:
        yield server.port


def ask(port, schema, model, seed):
    """The answers that their shape ended; None: the schema is refused."""
    body = {"model": model, "prompt": "Write: ", "max_tokens": 4000, "temperature": 1, "seed": seed, "n": ANSWERS, "json_schema": json.dumps(schema)}
    reply = call(port, "POST", "/v1/completions", body)
    if reply.status == 400:
        assert reply.error["param"] == "json_schema" and reply.error["message"].startswith("json_schema"), reply.text
        return None
    assert reply.status == 200, reply.text
    return [choice["text"] for choice in reply.json()["choices"] if choice["finish_reason"] == "stop"]


def valid_answers(port, schema, number):
    """How many valid answers; None: the schema is refused."""
    answers = [ask(port, schema, model, number) for model in MODELS]
    assert (answers[0] is None) == (answers[1] is None)
    if answers[0] is None:
        return None
    judge = jsonschema.Draft202012Validator(shapes.for_the_judge(schema), format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    for text in sum(answers, []):
        judge.validate(json.loads(text))
    return sum(map(len, answers))


def test_every_answer_is_valid(port, suite):
    taken = {number: valid_answers(port, schema, number) for number, schema in enumerate(suite)}
    taken = [n for n in taken.values() if n is not None]
    print(f"{len(taken)} of {len(suite)} schemas of the suite are taken, {sum(taken)} answers are valid")
    assert len(taken) > 50
    for number, schema in enumerate(shapes.BY_HAND + shapes.schemas(LEAST_SCHEMAS, 2)):
        n = valid_answers(port, schema, number)
        assert n is not None, schema
        taken.append(n)
    print(f"{sum(taken)} answers of {len(taken)} schemas are valid")
    assert len(taken) >= LEAST_SCHEMAS and sum(taken) >= LEAST_ANSWERS
