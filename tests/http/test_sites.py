"""Pages of foreign sites: by a name of their own that resolves to the server (DNS rebinding), and by the
requests that a browser sends for them without asking first."""

import pytest

import client
from client import call
from server import Server, run
from settings import MODEL, MODEL_DIR

pytestmark = pytest.mark.quick

FOREIGN = "evil.example"
BODY = {"model": MODEL, "prompt": "月下", "seed": 1}
JSON = {"Content-Type": "application/json"}
ACTS = [("POST", "/v1/completions", BODY), ("POST", "/v1/models/reload", b""), ("POST", "/", b"upper=%E6%9C%88"),
        ("DELETE", "/v1/states/x", None), ("PUT", "/v1/states/x", b""), ("POST", "/v1/states/x/fork", {"n": 1}),
        ("POST", "/v1/images/edits", b"")]


def status(port, host, path="/v1/models", headers=None):
    return call(port, "GET", path, headers={"Host": host, **(headers or {})}).status


@pytest.mark.parametrize("path", ["/", "/v1/models", "/livez", "/metrics"])
@pytest.mark.parametrize("host", [FOREIGN, f"{FOREIGN}:8080", "localhost.evil.example", "127.0.0.1.nip.io", "a@localhost",
                                  "localhost, evil.example", "localhost:port", "[localhost]"])
def test_foreign_host(port, host, path):
    reply = call(port, "GET", path, headers={"Host": host})
    assert reply.status == 421, reply.text
    assert (reply.error["param"], reply.error["code"]) == ("Host", "host_not_allowed")
    assert "--allowed-hosts" in reply.error["message"]


def test_foreign_host_in_the_url(port):
    """It counts, and not Host."""
    data = b"GET http://evil.example/v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert client.parse_replies(client.exchange(port, data))[0][0].status == 421
    data = b"GET http://localhost/v1/models HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    assert client.parse_replies(client.exchange(port, data))[0][0].status == 200


@pytest.mark.parametrize("host", ["localhost", "LocalHost:1",
                                  "127.0.0.1:8080",  # check-tests: names in a header, no ports of ours
                                  "[::1]:8080",  # check-tests: another one
                                  "10.2.3.4", "linnet",
                                  "linnet:8080", "app.localhost", "linnet.ai.svc.cluster.local:80", "host.internal."])
def test_local_hosts(port, host):
    assert status(port, host) == 200


def test_http_1_0_without_a_host(port):
    assert b" 200 " in client.exchange(port, b"GET /livez HTTP/1.0\r\n\r\n").splitlines()[0]


def test_listed_hosts():
    with Server("--allowed-hosts", "api.example, *.web.example") as server:
        for host in ("api.example", "API.example:443", "a.web.example", "b.a.web.example", "127.0.0.1", "linnet"):
            assert status(server.port, host) == 200, host
        for host in (FOREIGN, "web.example", "a.api.example", "evilweb.example"):
            assert status(server.port, host) == 421, host


def test_any_host():
    with Server("--allowed-hosts", "*") as server:
        assert status(server.port, FOREIGN) == 200


def test_keys_are_protection_enough():
    """A foreign page has none. With a list, the list decides."""
    with Server("--api-key", "k") as server:
        assert status(server.port, FOREIGN, headers={"Authorization": "Bearer k"}) == 200
        assert status(server.port, FOREIGN) == 401
    with Server("--api-key", "k", "--allowed-hosts", "api.example") as server:
        assert status(server.port, FOREIGN, headers={"Authorization": "Bearer k"}) == 421


@pytest.mark.parametrize("value", ["https://a.example", "a:80", "*a", "a/b"])
def test_bad_list(value):
    result = run("serve", "--port", "0", "--model", MODEL_DIR, "--allowed-hosts", value)
    assert result.returncode == 2
    assert "allowed-hosts" in result.stderr.splitlines()[-1]


CROSS = {
    "site": {"Sec-Fetch-Site": "cross-site", "Origin": f"https://{FOREIGN}"},
    "site without an origin": {"Sec-Fetch-Site": "cross-site"},
    "origin": {"Origin": f"https://{FOREIGN}"},
    "no origin to tell": {"Origin": "null"},
}


@pytest.mark.parametrize("headers", CROSS.values(), ids=CROSS.keys())
@pytest.mark.parametrize("method, path, body", ACTS, ids=[f"{m} {p}" for m, p, _ in ACTS])
def test_foreign_pages_cannot_act(port, method, path, body, headers):
    reply = call(port, method, path, body, headers)
    assert reply.status == 403, reply.text
    assert (reply.error["param"], reply.error["code"]) == ("Origin", "cross_site")


def test_foreign_pages_can_be_linked_from(port):
    """Following a link is a request of another site too."""
    assert call(port, "GET", "/", headers=CROSS["site"]).status == 200


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": site} for site in ("same-origin", "same-site", "none")]
                         + [{"Origin": "http://127.0.0.1:3000"}])  # check-tests: a name in a header
def test_own_pages_act(port, headers):
    assert call(port, "POST", "/v1/completions", BODY, headers).status == 200


def test_listed_origins_act():
    with Server("--cors-origins", "https://a.example") as server:
        listed = {**CROSS["site"], "Origin": "https://a.example"}
        assert call(server.port, "POST", "/v1/completions", BODY, listed).status == 200
        assert call(server.port, "POST", "/v1/completions", BODY, CROSS["site"]).status == 403


# --- Content-Type ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [{}, {"Content-Type": "application/x-www-form-urlencoded"},
                                  {"Content-Type": "text/plain"}], ids=["none", "as curl -d", "text"])
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/images/generations",
                                  "/v1/images/edits", "/v1/score", "/v1/states", "/v1/states/x/fork",
                                  "/v1/models/reload"])
def test_bodies_that_are_not_said_to_be_json(port, path, kind):
    reply = call(port, "POST", path, b'{"n": 1}', kind)
    assert reply.status == 415, reply.text
    assert reply.error["param"] == "Content-Type"
    assert "application/json" in reply.error["message"]


def test_reload_needs_no_body(port):
    assert call(port, "POST", "/v1/models/reload", b"").status == 200
    assert call(port, "POST", "/v1/models/reload", b"", JSON).status == 200
    assert call(port, "POST", "/v1/models/reload", b"", {"Content-Type": "text/plain"}).status == 415
