"""A running server's /metrics, for the tests that compare names with it."""

import pytest

import places  # noqa: F401 (finds the HTTP tests' modules)
import client
from server import Server
from test_tls import TlsServer, make_pair


@pytest.fixture(scope="session")
def metrics_page(tmp_path_factory):
    with Server("--slots", "4") as server:
        client.stream_ok(server.port, prompt="海上明月", n=2)
        page = client.call(server.port, "GET", "/metrics").text
    with TlsServer(make_pair(tmp_path_factory.mktemp("tls"), "one")) as server:
        of_tls = server.call("GET", "/metrics").text
    name = "linnet_tls_certificate_expiry_timestamp_seconds"  # the one metric that only a server with TLS has
    return page + "".join(line + "\n" for line in of_tls.splitlines() if name in line)
