"""Behind the proxies of Debian 12: for any bytes of a client, the proxy and the server see the same requests. A request
hidden in another request's body, or after its end, gets no answer, on no connection."""

import contextlib
import itertools
import json
import os
import shutil

import pytest

import client
from cluster import HAProxy, Process
from server import Server, wait_until
from settings import MODEL
from test_framing import CHUNKED, GET, JSON, LENGTH, ONE_CHUNK, POST, REFUSED

pytestmark = pytest.mark.asan

NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log stderr warn;
events {{ worker_connections 256; }}
http {{
    access_log off; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
    uwsgi_temp_path {folder}; scgi_temp_path {folder}; large_client_header_buffers 4 64k; ignore_invalid_headers off;
    underscores_in_headers on;
    upstream linnet {{ server 127.0.0.1:{backend}; keepalive 1; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://linnet; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
            proxy_request_buffering off; proxy_next_upstream off;
        }}
    }}
}}
"""

# As plain as it gets: one connection to the server, used again by the next client.
HAPROXY = """
defaults
    mode http
    timeout connect 10s
    timeout client 120s
    timeout server 120s
    http-reuse always
frontend public
    bind "${LINNET_BIND}"
    default_backend linnet
backend linnet
    server one "${LINNET_1}" pool-max-conn 1
"""


class Nginx(Process):
    """A configuration and folders of its own; the system's service is not touched."""

    def __init__(self, backend, folder):
        super().__init__()
        self.backend, self.folder = backend, folder

    def run_on(self, port):
        found = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
        if found is None:
            pytest.skip("there is no nginx (Debian package nginx-light)")
        config = self.folder / "nginx.conf"
        config.write_text(NGINX.format(folder=self.folder, backend=self.backend, port=port))
        self.spawn([found, "-c", str(config), "-e", "stderr", "-p", str(self.folder)])


@pytest.fixture(scope="module")
def server():
    with Server("--http-threads", "1", "--log-level", "debug") as server:
        yield server


@pytest.fixture(scope="module", params=["haproxy", "nginx"])
def proxy(request, server, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "nginx":
        with Nginx(server.port, folder) as proxy:
            yield proxy
    else:
        config = folder / "haproxy.cfg"
        config.write_text(HAPROXY)
        with HAProxy(server.port, config=config) as proxy:
            yield proxy


HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n"
MORE = {
    "both lengths": POST + LENGTH + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + ONE_CHUNK,
    "both lengths, the body longer": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two encodings": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + ONE_CHUNK,
    "space before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n" + ONE_CHUNK,
    "vertical tab": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + ONE_CHUNK,
    "underscore": POST + b"Transfer_Encoding: chunked\r\n" + LENGTH + b"\r\n\r\n" + JSON,
    "signed size": CHUNKED + b"+%x\r\n%s\r\n0\r\n\r\n" % (len(JSON), JSON),
    "hex prefix": CHUNKED + b"0x%x\r\n%s\r\n0\r\n\r\n" % (len(JSON), JSON),
    "size and space": CHUNKED + b"%x \r\n%s\r\n0\r\n\r\n" % (len(JSON), JSON),
    "short chunk": CHUNKED + b"%x\r\n%s\r\n0\r\n\r\n" % (len(JSON) - 3, JSON),
    "long chunk": CHUNKED + b"%x\r\n%s\r\n0\r\n\r\n" % (len(JSON) + 60, JSON),
    "body of a GET": GET + b"Content-Length: 5\r\n\r\nhello",
    "no end of chunks": CHUNKED + b"%x\r\n%s\r\n0\r\n" % (len(JSON), JSON),
    "CR in a chunk's line": CHUNKED + b"%x\r;\r\n%s\r\n0\r\n\r\n" % (len(JSON), JSON),
    "proper length": POST + LENGTH + b"\r\n\r\n" + JSON,
    "proper chunks": CHUNKED + ONE_CHUNK,
}
ALL = {**{name: data for name, (data, _, _) in REFUSED.items()}, **MORE}
marks = itertools.count()


def read_now(sock):
    sock.settimeout(0.01)  # check-tests: one look at the arrived bytes
    with contextlib.suppress(OSError):
        return sock.recv(65536)
    return b""


def answer(port, path, mark):
    """Of a request of another client, through the connection that the proxy keeps to the server."""
    return client.call(port, "GET", f"{path}?{mark}", headers={"X-Request-Id": mark, "Host": "localhost"})


@pytest.mark.parametrize("data", ALL.values(), ids=ALL.keys())
def test_no_request_is_hidden(proxy, server, data):
    """The attack ends in a request for a path of its own. Others get the answers to their own requests."""
    victims = [f"mark-{next(marks)}" for _ in range(3)]
    since = len(server.log)
    attack = data if b"/smuggled" in data else data + HIDDEN
    with client.connect(proxy.port) as sock:
        with contextlib.suppress(OSError):  # refused while sending
            sock.sendall(attack.replace(b"/smuggled", b"/hidden"))
        received = client.read_all(sock, 2)
        for mark in victims:
            reply = answer(proxy.port, "/livez", mark)
            assert reply.status == 200, (reply, received)
            assert reply.headers["x-request-id"] == mark

        def agree():
            """The server's answer has reached the client that asked, and no other bytes have."""
            nonlocal received
            received += read_now(sock)
            return server.log[since:].count(" /hidden ") == received.count(b"HTTP/1.1 404")

        wait_until(agree, client.PATIENCE, "the attacker's answers")


def test_the_proxy_does_reuse_connections(proxy, server):
    """Otherwise the test above would show nothing."""
    def connections():
        return server.metric("linnet_http_connections")

    for i in range(20):
        assert answer(proxy.port, "/livez", f"again-{i}").status == 200
    assert connections() <= 4  # its pool, and this look
    body = json.dumps({"model": MODEL, "prompt": "海上明月"}).encode()
    assert client.call(proxy.port, "POST", "/v1/completions", body,
                       {"Content-Type": "application/json"}).status == 200
