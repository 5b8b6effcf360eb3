"""HTTPS by flag: the same answers, streams and refusals within TLS, and files that do not fit."""

import signal
import ssl
import subprocess
import time

import pytest

import client
import holding
import server as servers
from holding import LONG
from server import START_TIMEOUT, STOP_TIMEOUT, Server, run, wait_until
from test_reload import replace


CURVE = ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


def make_pair(folder, name, kind=CURVE, more=()):
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", *kind,
         "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", *more],
        check=True, capture_output=True, timeout=60,
    )
    return cert, key


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return make_pair(tmp_path_factory.mktemp("tls"), "one")


class TlsServer(Server):
    def __init__(self, pair, *flags):
        super().__init__("--tls-cert", pair[0], "--tls-key", pair[1], *flags)
        self.context = ssl.create_default_context(cafile=pair[0])

    def connect(self):
        return self.context.wrap_socket(client.connect(self.port), server_hostname=client.HOST)

    def call(self, method, path, body=None):
        data = client.encode_request(method, path, body, {"Connection": "close"}, self.port)
        with self.connect() as sock:
            sock.sendall(data)
            received = b""
            while part := sock.recv(65536):
                received += part
        replies, rest = client.parse_replies(received)
        assert len(replies) == 1 and not rest
        return replies[0]

    def is_ready(self):
        return self.call("GET", "/readyz").status == 200


@pytest.fixture(scope="module")
def tls(pair):
    with TlsServer(pair) as server:
        yield server


def test_the_same_answers(tls):
    body = {"model": client.MODEL, "prompt": "海上明月", "seed": 1, "rank": False}
    with Server() as plain:
        expected = client.complete_ok(plain.port, prompt="海上明月", seed=1)["choices"]
    assert tls.call("POST", "/v1/completions", body).json()["choices"] == expected
    events = client.parse_events(tls.call("POST", "/v1/completions", {**body, "stream": True}).body)
    assert client.join_stream(events)[0] == {0: expected[0]["text"]}


def test_address_in_the_log(tls):
    assert "ready: https://127.0.0.1:" in tls.log


def test_linnet_health(tls, pair, monkeypatch):
    """By the server's own variables, as in a container; without them it is not ready."""
    monkeypatch.setattr(servers, "environment",
                        lambda: {"LINNET_PORT": str(tls.port), "LINNET_TLS_CERT": str(pair[0])})
    for host in ("127.0.0.1", "0.0.0.0"):  # an address that the certificate lacks
        result = run("health", "--host", host)
        assert (result.returncode, result.stdout, result.stderr) == (0, "ready\n", "")
    assert "404" in run("health", "--path", "/nowhere").stderr
    monkeypatch.setattr(servers, "environment", lambda: {"LINNET_PORT": str(tls.port)})
    assert run("health").returncode == 1


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions(tls, version):
    context = ssl.create_default_context(cafile=tls.args[tls.args.index("--tls-cert") + 1])
    context.minimum_version = context.maximum_version = version
    with context.wrap_socket(client.connect(tls.port), server_hostname=client.HOST) as sock:
        sock.sendall(client.encode_request("GET", "/health", port=tls.port))
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")


def test_plain_requests_get_no_answer(tls):
    data = client.exchange(tls.port, client.encode_request("GET", "/health", port=tls.port), 10)
    assert b"HTTP/" not in data
    assert tls.is_ready()


@pytest.mark.parametrize("head", [b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
                                  b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n"
                                  b"Transfer-Encoding: chunked\r\n\r\n",
                                  b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 20000 + b"\r\n\r\n"])
def test_bad_requests_are_refused_within_tls(tls, head):
    """Nothing unencrypted leaves: the client gets a refusal, or the end."""
    with tls.connect() as sock:
        received = b""
        try:
            sock.sendall(head)
            while part := sock.recv(65536):
                received += part
        except (ssl.SSLEOFError, ConnectionResetError):
            pass
    assert received == b"" or received.startswith((b"HTTP/1.1 400", b"HTTP/1.1 431"))
    assert tls.is_ready()


def test_leaving_frees_the_slot(pair):
    with TlsServer(pair, "--slots", "1", *holding.FLAGS) as server:
        def metric(name):
            text = server.call("GET", "/metrics").text
            return sum(float(line.split()[-1]) for line in text.splitlines()
                       if line.startswith(name + "{"))

        body = {"model": client.MODEL, **holding.ENDLESS, "stream": True}
        sock = server.connect()
        sock.sendall(client.encode_request("POST", "/v1/completions", body, port=server.port))
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
        wait_until(lambda: metric("linnet_slots_used") == 1, 60, "slot taken")
        sock.close()
        wait_until(lambda: metric("linnet_slots_used") == 0, 60, "slot free")
        assert metric("linnet_generated_tokens_total") < holding.TOKENS / 2


def test_a_client_that_never_shakes_hands_is_dropped(pair):
    with TlsServer(pair, "--read-timeout", "1") as server:
        with client.connect(server.port) as sock:
            assert client.read_all(sock, START_TIMEOUT) == b""
            sock.settimeout(STOP_TIMEOUT)
            assert sock.recv(1) == b""


def test_streams_finish_on_sigterm(pair):
    with TlsServer(pair, "--slots", "1", *holding.DRAIN) as server:
        sock = server.connect()
        body = {"model": client.MODEL, "prompt": LONG, "n": 16, "stream": True}
        sock.sendall(client.encode_request("POST", "/v1/completions", body, port=server.port))
        received = sock.recv(65536)
        server.signal()
        while part := sock.recv(65536):
            received += part
        replies, _ = client.parse_replies(received)
        client.parse_events(replies[0].body)
        sock.close()
        assert server.wait() == 0


def test_the_end_of_the_certificate_is_a_metric(tls):
    page = tls.call("GET", "/metrics").text
    end = float(page.split("\nlinnet_tls_certificate_expiry_timestamp_seconds ")[1].split()[0])
    assert 86400 < end - time.time() <= 2 * 86400 + 60  # make_pair's days
    with Server() as plain:
        assert "linnet_tls_certificate" not in client.call(plain.port, "GET", "/metrics").text


def put(pair, own):
    for source, target in zip(pair, own, strict=True):
        replace(target, source.read_bytes())


@pytest.mark.tsan
def test_renewed_on_sighup(tmp_path, pair):
    """New connections get the new certificate, old ones continue, and a pair that does not fit changes nothing."""
    own = tmp_path / "own.pem", tmp_path / "own.key"
    other = make_pair(tmp_path, "other")

    def served(server):
        return ssl.get_server_certificate((client.HOST, server.port), timeout=START_TIMEOUT)

    put(pair, own)
    with TlsServer(own) as server:
        assert served(server) == pair[0].read_text()
        with server.connect() as sock:
            put((pair[0], other[1]), own)
            server.signal(signal.SIGHUP)
            wait_until(lambda: "the server keeps the certificate that it has" in server.log, 60, "a warning")
            assert served(server) == pair[0].read_text()
            put(other, own)
            server.signal(signal.SIGHUP)
            wait_until(lambda: "new connections get the certificate" in server.log, 60, "renewal")
            assert served(server) == other[0].read_text()
            sock.sendall(client.encode_request("GET", "/health", port=server.port))
            assert sock.recv(65536).startswith(b"HTTP/1.1 200")
        server.context = ssl.create_default_context(cafile=other[0])
        assert server.is_ready()
        assert own[1].read_text().splitlines()[1] not in server.log


@pytest.mark.parametrize("kind, more", [(("rsa:512",), ()), (CURVE, ("-addext", "keyUsage=keyAgreement"))])
def test_a_pair_without_a_handshake_is_refused(tmp_path, pair, kind, more):
    """At a start, by --check and on SIGHUP."""
    bad, own = make_pair(tmp_path, "bad", kind, more=more), (tmp_path / "own.pem", tmp_path / "own.key")
    for check in ((), ("--check",)):
        refused = run("serve", "--port", "0", "--tls-cert", bad[0], "--tls-key", bad[1], *check)
        assert refused.returncode == 2 and "a TLS handshake with them fails" in refused.stderr.splitlines()[-1]
    put(pair, own)
    with TlsServer(own) as server:
        put(bad, own)
        server.signal(signal.SIGHUP)
        wait_until(lambda: "the server keeps the certificate that it has" in server.log, 60, "a warning")
        assert "a TLS handshake with them fails" in server.log
        server.context = ssl.create_default_context(cafile=pair[0])
        assert server.is_ready()


@pytest.mark.parametrize("kind", [CURVE, ("rsa:2048",), ("ed25519",), ("rsa-pss", "-pkeyopt", "rsa_keygen_bits:2048")])
def test_usual_kinds_of_keys(tmp_path, kind):
    with TlsServer(make_pair(tmp_path, "own", kind)) as server:
        assert server.is_ready() and "the certificate of --tls-cert" not in server.log


def test_a_certificate_outside_its_time_is_warned_about(tmp_path, pair):
    old, own = (tmp_path / "old.pem", pair[1]), (tmp_path / "own.pem", tmp_path / "own.key")
    subprocess.run(["openssl", "x509", "-in", pair[0], "-signkey", pair[1], "-days", "-1", "-out", old[0]],
                   check=True, capture_output=True, timeout=60)
    put(pair, own)
    with TlsServer(own) as server:
        assert "clients refuse it" not in server.log
        put(old, own)
        server.signal(signal.SIGHUP)
        wait_until(lambda: "new connections get the certificate" in server.log, 60, "renewal")
        (line,) = [line for line in server.log.splitlines() if "clients refuse it" in line]
        assert " warn the certificate of --tls-cert ended at " in line
    checked = run("serve", "--check", "--tls-cert", old[0], "--tls-key", old[1])
    assert checked.returncode == 0 and "clients refuse it" in checked.stderr


@pytest.mark.parametrize("which", ["swapped", "foreign", "no key", "no file", "no pem"])
def test_bad_files(tmp_path, pair, which):
    cert, key = pair
    other = make_pair(tmp_path, "other")
    text = tmp_path / "text"
    text.write_text("not PEM\n")
    flags = {
        "swapped": ["--tls-cert", key, "--tls-key", cert],
        "foreign": ["--tls-cert", cert, "--tls-key", other[1]],
        "no key": ["--tls-cert", cert],
        "no file": ["--tls-cert", cert, "--tls-key", tmp_path / "nowhere"],
        "no pem": ["--tls-cert", text, "--tls-key", key],
    }[which]
    result = run("serve", "--port", "0", *flags)
    assert result.returncode == 2, result.stderr
    assert "tls-" in result.stderr.splitlines()[-1]
