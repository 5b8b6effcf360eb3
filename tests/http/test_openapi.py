"""/openapi.json and the running server: every route with every method, and made-up requests whose
answers must be as described (schemathesis)."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from client import call
from server import Server
from settings import MODEL, MODEL_DIR

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_headers_conformance,response_schema_conformance,negative_data_rejection,"
    "unsupported_method"
)
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "LINNET"}


@pytest.fixture
def document(port):
    reply = call(port, "GET", "/openapi.json")
    assert reply.status == 200 and reply.headers["content-type"] == "application/json"
    return reply.json()


def routes_of(document):
    """Every path that can be asked for, with its methods."""
    return {
        re.sub(r"\{\w+\}", MODEL, path): {name.upper() for name in item if name != "parameters"}
        for path, item in document["paths"].items()
    }


def allowed(methods):
    return methods | {"OPTIONS"} | ({"HEAD"} if "GET" in methods else set())


def test_the_document_is_about_this_version(port, document):
    assert document["info"]["version"] == call(port, "GET", "/health").json()["version"]
    names = [op["operationId"] for item in document["paths"].values() for k, op in item.items()
             if k != "parameters"]
    assert len(names) == len(set(names)) >= 14


def test_options_says_what_every_route_allows(port, document):
    for path, methods in routes_of(document).items():
        reply = call(port, "OPTIONS", path)
        assert reply.status == 204 and reply.body == b"", path
        assert set(reply.headers["allow"].split(", ")) == allowed(methods), path


def test_other_methods_are_refused_on_every_route(port, document):
    for path, methods in routes_of(document).items():
        for method in sorted(METHODS - allowed(methods)):
            reply = call(port, method, path)
            assert reply.status == 405, (method, path)
            assert set(reply.headers["allow"].split(", ")) == allowed(methods), path
            if method != "HEAD":
                assert reply.error["code"] == "method_not_allowed"


def test_head_is_get_without_a_body(port, document):
    for path, methods in routes_of(document).items():
        if "GET" not in methods:
            continue
        head, get = call(port, "HEAD", path), call(port, "GET", path)
        there = 404 if path.startswith(("/v1/states/", "/v1/responses/", "/v1/conversations/")) else 200  # no such id
        there = 400 if path == "/link.png" else there  # which wants a seed
        assert head.status == get.status == there and head.body == b"", path
        assert head.headers["content-type"] == get.headers["content-type"], path


def test_methods_of_paths_that_are_not_there(port):
    for method in sorted(METHODS):
        reply = call(port, method, "/v1/no-such-route")
        assert reply.status == 404, method
        assert "allow" not in reply.headers
        assert reply.body == b"" if method == "HEAD" else reply.error["code"] == "not_found"


# --- needs of generators of clients


def nested(schema, path):
    """(path, schema) of every unnamed schema within a schema."""
    for key, value in schema.items():
        inner = (value.items() if key == "properties" else enumerate(value) if key in ("oneOf", "anyOf", "allOf")
                 else [("[]", value)] if key in ("items", "additionalProperties") and isinstance(value, dict) else [])
        for name, one in inner:
            yield f"{path}.{name}", one
            yield from nested(one, f"{path}.{name}")


def operations(document):
    return [op for item in document["paths"].values() for key, op in item.items() if key != "parameters"]


def bodies(op):
    answers = [a for a in op["responses"].values() if "content" in a]
    return [c["schema"] for part in (op.get("requestBody", {}), *answers) for c in part.get("content", {}).values()]


def test_every_object_with_fields_has_a_name(document):
    found = [where for name, schema in document["components"]["schemas"].items() for where, one in nested(schema, name)
             if "properties" in one or "object" in one.get("type", [])]
    found += [op["operationId"] for op in operations(document) for schema in bodies(op) if "properties" in schema]
    assert found == []


def test_every_operation_has_a_tag_that_is_explained(document):
    tags = {tag["name"]: tag["description"] for tag in document["tags"]}
    used = {tag for op in operations(document) for tag in op["tags"]}
    assert used == set(tags) and all(tags.values()) and all(len(op["tags"]) == 1 for op in operations(document))
    assert [server["url"] for server in document["servers"]] == ["/"]


def test_examples_are_answered(document, tmp_path):
    """Every JSON body has one, and it is a good request to the models that come with the server."""
    (tmp_path / "mnist").symlink_to(MODEL_DIR.parent / "mnist")
    with Server("--models", tmp_path) as server:
        check_examples(document, server.port)
        server.wait_idle()


def check_examples(document, port):
    schemas, state = document["components"]["schemas"], None
    requests = [(path, item["post"]["requestBody"]["content"]["application/json"]["schema"]) for path, item in document["paths"].items()
                if "application/json" in item.get("post", {}).get("requestBody", {}).get("content", {})]
    assert len(requests) >= 10
    for path, schema in requests:
        (example,) = schemas[schema["$ref"].split("/")[-1]]["examples"]
        if path.startswith("/v1/conversations/"):
            path = path.replace("{id}", call(port, "POST", "/v1/conversations", {}).json()["id"])
        if "{id}" in path:
            state = state or call(port, "POST", "/v1/states", schemas["StateRequest"]["examples"][0]).json()["id"]
            path = path.replace("{id}", state)
        reply = call(port, "POST", path, example)
        assert reply.status in (200, 201), (path, reply.text)


# --- made-up requests


def fitted(document):
    """The document with this server's own values: its model, and lines that it answers."""
    schemas = document["components"]["schemas"]
    for name in ("CompletionRequest", "ChatRequest"):
        schemas[name]["properties"]["model"]["enum"] = [MODEL]
        schemas[name]["properties"]["n"]["maximum"] = 4
    for name in ("ResponseRequest", "MessageRequest", "MessageTokensRequest"):
        schemas[name]["properties"]["model"]["enum"] = [MODEL]
    properties = schemas["CompletionRequest"]["properties"]
    properties["best_of"] = {"type": "null"}
    properties["prompt"]["oneOf"][0]["pattern"] = "^[山水风月天海云低舟一叶]{1,8}$"
    return document


def answered(port):
    """Completions that were answered so far."""
    text = call(port, "GET", "/metrics").text
    return sum(
        float(line.split()[-1])
        for line in text.splitlines()
        if line.startswith("linnet_requests_total") and 'outcome="ok"' in line
    )


@pytest.mark.heavy
def test_made_up_requests_are_answered_as_described(tmp_path, speech_models):
    program = shutil.which("st", path=str(Path(sys.executable).parent)) or shutil.which("st")
    if program is None:
        pytest.skip("schemathesis is not installed")
    with Server("--max-n", "4", "--models", speech_models) as server:
        described = tmp_path / "openapi.json"
        document = call(server.port, "GET", "/openapi.json").json()
        described.write_text(json.dumps(fitted(document)), encoding="utf-8")
        run = subprocess.run(
            [program, "run", described, "--url", f"http://127.0.0.1:{server.port}",
             "--phases", "fuzzing", "--max-examples", "6",
             "--generation-deterministic", "--no-color",
             "--exclude-path", "/v1/models/reload",  # test_reload.py does
             "--exclude-path", "/link.png",  # made-up queries are too long: 414, no refusal to the checker; test_share.py
             "--checks", CHECKS],
            cwd=tmp_path, capture_output=True, text=True, timeout=300,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        cases = re.search(r"(\d+) generated, (\d+) passed", run.stdout)
        assert cases and cases[1] == cases[2] and int(cases[1]) >= 30, run.stdout
        assert answered(server.port) >= 1, "not a single one was a good request"
        server.wait_idle()
