"""A running server's /metrics, for the tests that compare names with it."""

import pytest

import places  # noqa: F401 (finds the HTTP tests' modules)
import client
from server import Server


@pytest.fixture(scope="session")
def metrics_page():
    with Server("--slots", "4") as server:
        client.stream_ok(server.port, prompt="海上明月", n=2)
        return client.call(server.port, "GET", "/metrics").text
