"""Who may use the server: API keys, the public list, limits of a key, other origins' pages."""

import contextlib
import signal

import pytest

import client
import holding
from lazy import lazily
from server import Server, run, wait_until

openai = lazily("openai")

pytestmark = [pytest.mark.quick, pytest.mark.asan]

KEY, OTHER = "sk-first", "sk-second"


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture(scope="module")
def key_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text(f"# of the tests\nfirst {KEY}\nsecond {OTHER}\n")
    return path


@pytest.fixture(scope="module")
def locked(key_file):
    with Server("--api-key-file", key_file, "--public", "/health,/readyz,/metrics") as server:
        yield server


ROUTES = [
    ("GET", "/"),
    ("POST", "/"),
    ("GET", "/v1/models"),
    ("GET", "/v1/capacity"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/responses"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/images/generations"),
    ("POST", "/v1/images/edits"),
    ("POST", "/v1/score"),
    ("POST", "/v1/models/reload"),
    ("OPTIONS", "/v1/models"),
    ("DELETE", "/v1/models"),
    ("GET", "/livez"),
    ("GET", "/nothing/here"),
    ("GET", "/metrics/"),
    ("GET", "/v1/../health"),
]


@pytest.mark.parametrize("method,path", ROUTES)
@pytest.mark.parametrize("headers", [{}, bearer("sk-firs"), {"Authorization": KEY}, {"X-Api-Key": "sk-firs"},
                                     {"X-Api-Key": KEY} | bearer("sk-firs")],
                         ids=["none", "wrong", "no scheme", "wrong as Anthropic", "wrong before Anthropic"])
def test_everything_else_wants_a_key(locked, method, path, headers):
    body = {"prompt": "月下"} if method == "POST" else None
    reply = client.call(locked.port, method, path, body, headers)
    assert reply.status == 401
    assert reply.error["type"] == "authentication_error"
    assert reply.error["code"] == ("invalid_api_key" if headers else "missing_api_key")
    assert reply.headers["www-authenticate"] == "Bearer"
    assert "x-request-id" in reply.headers


@pytest.mark.parametrize("path", ["/health", "/readyz", "/metrics"])
def test_public_paths_want_none(locked, path):
    assert client.call(locked.port, "GET", path).status == 200
    assert client.call(locked.port, "GET", path, headers=bearer("wrong")).status == 200


@pytest.mark.parametrize("key", [KEY, OTHER])
def test_with_a_key(locked, key):
    body = {"model": client.MODEL, "prompt": "月下", "seed": 1}
    for headers in (bearer(key), {"X-Api-Key": key}):
        reply = client.call(locked.port, "POST", "/v1/completions", body, headers)
        assert reply.status == 200, reply.text
    assert client.call(locked.port, "GET", "/nothing", headers=bearer(key)).status == 404


def test_openai_client(locked):
    url = f"http://127.0.0.1:{locked.port}/v1"
    with openai.OpenAI(base_url=url, api_key="wrong", max_retries=0) as api:
        with pytest.raises(openai.AuthenticationError) as caught:
            api.completions.create(model=client.MODEL, prompt="月下")
        assert caught.value.code == "invalid_api_key"
    with openai.OpenAI(base_url=url, api_key=KEY, max_retries=0) as api:
        assert len(api.completions.create(model=client.MODEL, prompt="月下").choices[0].text) == 2


def test_a_body_without_a_key_is_not_read(locked):
    """The refusal comes before the body, which would have been too long in coming."""
    with client.connect(locked.port) as sock:
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n")
        received = sock.recv(65536)
    assert received.startswith(b"HTTP/1.1 401")
    assert b"connection: close" in received.lower()


def test_keys_stay_out_of_the_process_table():
    with Server("--api-key", KEY) as server:
        with open(f"/proc/{server.pid}/cmdline", "rb") as f:
            assert KEY.encode() not in f.read()
        assert KEY not in server.log
        assert client.call(server.port, "GET", "/v1/models").status == 401
        assert client.call(server.port, "GET", "/v1/models", headers=bearer(KEY)).status == 200


@pytest.mark.parametrize("text", ["", "# none\n", "a b c\n", "twice\ntwice\n"])
def test_bad_key_files(tmp_path, text):
    path = tmp_path / "keys"
    path.write_text(text)
    result = run("serve", "--port", "0", "--api-key-file", path)
    assert result.returncode == 2
    assert str(path) in result.stderr.splitlines()[-1]


def test_missing_key_file(tmp_path):
    result = run("serve", "--port", "0", "--api-key-file", tmp_path / "nowhere")
    assert result.returncode == 2 and "nowhere" in result.stderr.splitlines()[-1]


# --- limits of a key -----------------------------------------------------------------------------


def test_requests_at_once(key_file):
    flags = ["--api-key-file", key_file, "--key-concurrency", "2", "--slots", "1",
             "--public", "/readyz,/metrics", *holding.FLAGS]
    with Server(*flags) as server:
        def ask(key):
            body = {"model": client.MODEL, "prompt": "月下"}
            return client.call(server.port, "POST", "/v1/completions", body, bearer(key))

        busy = [holding.send(server.port, holding.ENDLESS, True, bearer(KEY)) for _ in range(2)]
        wait_until(lambda: server.metric("linnet_queue_length") == 1, 60, "one runs, one waits")
        reply = ask(KEY)
        assert reply.status == 429, reply.text
        assert reply.error["type"] == "rate_limit_error"
        assert reply.error["code"] == "rate_limit_exceeded"
        assert int(reply.headers["retry-after"]) >= 1
        assert client.call(server.port, "GET", "/v1/models", headers=bearer(KEY)).status == 200
        for sock in busy:
            client.reset(sock)
        assert ask(OTHER).status == 200
        wait_until(lambda: ask(KEY).status == 200, 60, "places of those who left")


def test_requests_a_minute(key_file):
    with Server("--api-key-file", key_file, "--key-rate", "3") as server:
        body = {"model": client.MODEL, "prompt": "月下"}

        def ask(key):
            return client.call(server.port, "POST", "/v1/completions", body, bearer(key))

        assert [ask(KEY).status for _ in range(4)] == [200, 200, 200, 429]
        assert 1 <= int(ask(KEY).headers["retry-after"]) <= 20
        assert ask(OTHER).status == 200


def test_without_keys_the_limits_are_everybodys():
    with Server("--key-rate", "2") as server:
        statuses = [client.complete(server.port, prompt="月下").status for _ in range(3)]
        assert statuses == [200, 200, 429]


# --- other origins -------------------------------------------------------------------------------

ORIGIN = "https://a.example"


@pytest.fixture(scope="module")
def shared_with_origins():
    flags = ["--api-key", KEY, "--cors-origins", f"{ORIGIN}, https://b.example:8443"]
    with Server(*flags) as server:
        yield server


def preflight(port, origin, path="/v1/completions"):
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST",
               "Access-Control-Request-Headers": "authorization,content-type"}
    return client.call(port, "OPTIONS", path, headers=headers)


@pytest.mark.parametrize("origin", [ORIGIN, "https://b.example:8443"])
def test_preflight_of_a_listed_origin(shared_with_origins, origin):
    reply = preflight(shared_with_origins.port, origin)
    assert reply.status == 204
    assert reply.headers["access-control-allow-origin"] == origin
    assert "POST" in reply.headers["access-control-allow-methods"]
    assert "Authorization" in reply.headers["access-control-allow-headers"]
    assert "Origin" in reply.headers["vary"]
    assert "access-control-allow-credentials" not in reply.headers


@pytest.mark.parametrize("origin", ["https://evil.example", "http://a.example", "null",
                                    "https://a.example.evil", "https://a.example:444"])
def test_other_origins_learn_nothing(shared_with_origins, origin):
    for reply in (preflight(shared_with_origins.port, origin),
                  client.call(shared_with_origins.port, "GET", "/v1/models",
                              headers={"Origin": origin, **bearer(KEY)})):
        assert "access-control-allow-origin" not in reply.headers
        assert "Origin" in reply.headers["vary"]


@pytest.mark.parametrize("stream", [False, True])
def test_answers_and_errors_carry_the_origin(shared_with_origins, stream):
    body = {"model": client.MODEL, "prompt": "月下", "stream": stream}
    port, headers = shared_with_origins.port, {"Origin": ORIGIN}
    for more, status in ((bearer(KEY), 200), ({}, 401)):
        reply = client.call(port, "POST", "/v1/completions", body, {**headers, **more})
        assert reply.status == status
        assert reply.headers["access-control-allow-origin"] == ORIGIN


@pytest.mark.parametrize("status,more", [
    (413, {"Content-Length": "2000000"}), (415, {"Content-Encoding": "gzip", "Content-Length": "2"}),
    (400, {"Content-Length": "x"}), (431, {"A": "b" * 20_000}), (421, {"Host": "other.example"})])
def test_requests_that_http_refuses_carry_the_origin(status, more):
    with Server("--cors-origins", ORIGIN) as server:
        for origin, shown in ((ORIGIN, ORIGIN), ("https://evil.example", None)):
            headers = {"Host": "localhost", "Origin": origin, **more}
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            data = f"POST /v1/completions HTTP/1.1\r\n{lines}\r\n".encode()
            reply = client.parse_replies(client.exchange(server.port, data))[0][0]
            assert reply.status == status, reply.text
            assert reply.headers.get("access-control-allow-origin") == shown and "Origin" in reply.headers["vary"]


def test_pages_may_read_the_servers_own_headers(shared_with_origins):
    reply = client.call(shared_with_origins.port, "GET", "/v1/models", headers={"Origin": ORIGIN, **bearer(KEY)})
    shown = reply.headers["access-control-expose-headers"].split(", ")
    assert sorted(shown) == ["Allow", "Linnet-Ignored", "Retry-After", "X-Request-Id"]


def test_without_a_list_nothing_is_said():
    with Server() as server:
        reply = client.call(server.port, "GET", "/v1/models", headers={"Origin": ORIGIN})
        assert reply.status == 200
        assert "access-control-allow-origin" not in reply.headers and "vary" not in reply.headers


def test_any_origin():
    with Server("--cors-origins", "*") as server:
        assert preflight(server.port, ORIGIN).headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize("value", ["a.example", "https://a.example/path", "https://"])
def test_bad_origins(value):
    result = run("serve", "--port", "0", "--cors-origins", value)
    assert result.returncode == 2 and "cors-origins" in result.stderr.splitlines()[-1]


# --- connections of one address ------------------------------------------------------------------


def test_connections_of_one_address():
    with Server("--connections-per-address", "4") as server:
        held = []

        def holds_four():  # the connection that asked whether the server is ready may still count
            sock = client.connect(server.port)
            with contextlib.suppress(ConnectionError):
                sock.sendall(client.encode_request("GET", "/health", port=server.port))
                if sock.recv(65536).startswith(b"HTTP/1.1 200"):
                    held.append(sock)
            return len(held) == 4

        wait_until(holds_four, 60, "four places")
        with client.connect(server.port) as sock:
            assert client.read_all(sock, 10) == b""
        for sock in held:
            sock.close()

        def is_served():
            return client.exchange(
                server.port, client.encode_request("GET", "/health", port=server.port), 10
            ).startswith(b"HTTP/1.1 200")

        wait_until(is_served, 60, "a place")




def status_of(server, key):
    return client.call(server.port, "GET", "/v1/models", headers=bearer(key)).status


def test_keys_are_read_again_on_sighup(tmp_path):
    """New keys count, removed ones do not, a running request ends, and a bad file changes nothing."""
    path = tmp_path / "keys"
    path.write_text(f"first {KEY}\nsecond {OTHER}\n")
    flags = "--api-key-file", path, "--public", "/health,/readyz,/metrics", *holding.FLAGS
    with Server("--slots", "1", *flags) as server:
        with holding.send(server.port, holding.ENDLESS, stream=True, headers=bearer(OTHER)) as sock:
            assert sock.recv(100).startswith(b"HTTP/1.1 200")
            path.write_text(f"first {KEY}\nthird sk-third\n")
            server.signal(signal.SIGHUP)
            wait_until(lambda: status_of(server, "sk-third") == 200, 60, "the new key")
            assert status_of(server, OTHER) == 401 and status_of(server, KEY) == 200
            assert sock.recv(100), "a request that has begun goes on"
        assert "2 API keys: 1 new, 0 changed, 1 removed" in server.log
        assert server.metric("linnet_reloads_total", part="keys", result="ok") == 1
        path.write_text("# none\n")
        server.signal(signal.SIGHUP)
        wait_until(lambda: server.metric("linnet_reloads_total", part="keys", result="failed") == 1, 60, "the refusal")
        assert "has no key; the server keeps the keys that it has" in server.log
        assert status_of(server, "sk-third") == 200
        server.wait_idle()
