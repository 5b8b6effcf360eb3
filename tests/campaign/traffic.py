"""The soak's traffic: every kind of request that a server gets, good and bad, and the check of its answer."""

import threading
import time

import client
import image_model
import images
import lines
import png
from client import MODEL
from common import lasting, try_call

ADMIN = "the-key-of-the-operator"
TENANTS = {"north": "the-key-of-the-north", "south": "the-key-of-the-south", "west": "the-key-of-west"}
PROBES = (
    {"model": MODEL, "prompt": lines.of_length(32), "seed": 7, "n": 3, "logprobs": 3, "rank": False},
    {"model": "mnist", "seed": 7, "n": 1},
)
SETTINGS = 24  # different seeds: few enough to repeat, so that answers are compared
BUSY = (429, 503)
KEPT = {}  # the answers to all earlier requests, of models that are never reloaded
KEPT_LOCK = threading.Lock()


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def probe(port, body):
    """Status and lasting bytes of the answer. A server that refuses because it is busy is asked again."""
    path = "/v1/completions" if body["model"] == MODEL else images.GENERATIONS
    end = time.monotonic() + 300
    while True:
        reply = try_call(port, "POST", path, body, bearer(ADMIN), 300)
        if reply is None or reply.status not in BUSY or time.monotonic() > end:
            return None if reply is None else (reply.status, lasting(reply.body))
        time.sleep(0.05)


class Traffic:
    """One client's; `one` sends a request, or a few that belong together."""

    def __init__(self, server, folder, rng, number):
        self.server, self.folder, self.rng, self.number = server, folder, rng, number
        self.key = list(TENANTS.values())[number % len(TENANTS)]
        self.count = 0
        self.kinds = [
            (30, self.couplet), (20, self.stream), (10, self.picture), (4, self.digit), (8, self.edit),
            (8, self.score), (12, self.states), (15, self.leave), (10, self.bad), (5, self.no_key),
            (2, self.scrape), (6 if number == 0 else 0, self.reload), (8, self.keep_alive),
        ]  # fmt: skip

    def one(self):
        """(kind of the request, the fault or None)."""
        weights = [weight for weight, _ in self.kinds]
        kind = self.rng.choices([kind for _, kind in self.kinds], weights)[0]
        return kind.__name__, kind()

    def ask(self, method, path, body=None, headers=None, key=None):
        return try_call(self.server.port, method, path, body,
                        {**bearer(key or self.key), **(headers or {})}, 300)

    def line(self):
        return lines.mixed(SETTINGS)[self.rng.randrange(SETTINGS)].strip()

    def compare(self, request, reply):
        """The answer must equal this request's first answer; a full server may refuse."""
        if reply is None or reply.status not in (200, *BUSY):
            return f"{request}: {reply}"
        if reply.status != 200:
            return None
        name, answer = repr(request), hash(lasting(reply.body))
        with KEPT_LOCK:
            return None if KEPT.setdefault(name, answer) == answer else f"other bytes: {name}"

    # --- good requests

    def couplet(self):
        body = {"model": MODEL, "prompt": self.line(), "seed": self.rng.randrange(3),
                "n": self.rng.choice((1, 1, 2, 8)), "rank": False}  # a pool's size depends on the load
        return self.compare(body, self.ask("POST", "/v1/completions", body))

    def stream(self):
        body = {"model": MODEL, "prompt": self.line(), "seed": self.rng.randrange(3), "stream": True,
                "n": self.rng.choice((1, 1, 4))}
        return self.compare(body, self.ask("POST", "/v1/completions", body))

    def picture(self):
        body = {"model": images.SMALL, "seed": self.rng.randrange(SETTINGS), "n": self.rng.choice((1, 4)),
                "contact_sheet": self.rng.random() < 0.3}
        return self.expect(200, self.ask("POST", images.GENERATIONS, body))

    def digit(self):
        body = {"model": "mnist", "seed": self.rng.randrange(SETTINGS)}
        return self.compare(body, self.ask("POST", images.GENERATIONS, body))

    def edit(self):
        rows = self.rng.randrange(1, images.HEIGHT)
        top = png.write(images.WIDTH, rows, images.a_picture(height=rows))
        kind, body = images.encode_form({"model": images.SMALL, "seed": 1, "image": images.File(top)})
        return self.expect(200, self.ask("POST", images.EDITS, body, {"Content-Type": kind}))

    def score(self):
        body = {"model": MODEL, "prompt": "海上明月", "completion": self.rng.choice(("天涯比邻", "山中清风"))}
        return self.compare(body, self.ask("POST", images.SCORE, body))

    def keep_alive(self):
        """A few requests on one connection."""
        with client.connect(self.server.port, 300) as sock:
            for _ in range(self.rng.randrange(2, 5)):
                sock.sendall(client.encode_request("GET", "/v1/models", None, bearer(self.key),
                                                   self.server.port))
                received = b""
                while not client.parse_replies(received)[0]:
                    part = sock.recv(65536)
                    if not part:
                        return f"closed after {received!r}"
                    received += part
        return None

    def scrape(self):
        return self.expect(200, self.ask("GET", "/metrics"))

    def reload(self):
        """Weights of the pictures that differ from those before."""
        self.count += 1
        path = self.folder / images.SMALL / "model.safetensors"
        beside = path.with_suffix(".new")
        conf = image_model.config(images.WIDTH, images.HEIGHT, 1, True)
        image_model.write_tensors(beside, conf, seed=self.count % 2)
        beside.rename(path)
        return self.expect(200, self.ask("POST", "/v1/models/reload", {}, key=ADMIN))

    def states(self):
        """Made, read, put, forked, continued from, deleted."""
        prompt = lines.of_length(self.rng.choice((5, 7, 32)))
        body = {"model": MODEL, "prompt": prompt, "seed": self.rng.randrange(3), "rank": False}
        whole = self.ask("POST", "/v1/completions", body)
        part = self.ask("POST", "/v1/completions", {**body, "max_tokens": 2, "return_state": True})
        if whole is None or part is None:
            return "no answer"
        if {whole.status, part.status} & set(BUSY) or part.json()["states"][0]["id"] is None:
            return None
        name, own = part.json()["states"][0]["id"], f"soak-{self.number}"
        made = {name, own}
        octets = "application/octet-stream"
        blob = self.ask("GET", f"/v1/states/{name}", headers={"Accept": octets})
        put = self.ask("PUT", f"/v1/states/{own}", blob.body, {"Content-Type": octets})
        fork = self.ask("POST", f"/v1/states/{own}/fork", {"n": 2})
        made |= {copy["id"] for copy in fork.json().get("data", [])}
        rest = self.ask("POST", "/v1/completions", {"state": own})
        gone = [self.delete(name) for name in made]
        if rest.status in BUSY or put.status in BUSY or fork.status in BUSY:
            return None
        if rest.status != 200:
            return f"{body}: {rest.text}"
        texts = [reply.json()["choices"][0]["text"] for reply in (whole, part, rest)]
        if texts[0] != texts[1] + texts[2] or {reply.status for reply in gone} != {204}:
            return f"{texts}, {[reply.status for reply in (blob, put, fork, rest, *gone)]}"
        return None

    def delete(self, name):
        """Asks again while the server is too busy."""
        end = time.monotonic() + 300
        while (reply := self.ask("DELETE", f"/v1/states/{name}")).status in BUSY and time.monotonic() < end:
            time.sleep(0.05)
        return reply

    # --- bad ones

    def expect(self, status, reply):
        if reply is None or reply.status not in (status, *BUSY):
            return f"{status} was expected: {reply}"
        return None

    def leave(self):
        """A client that goes in the middle of a stream, politely or not."""
        body = {"model": MODEL, "prompt": lines.of_length(32), "n": 32, "stream": True}
        sock = client.connect(self.server.port, 300)
        sock.sendall(client.encode_request("POST", "/v1/completions", body, bearer(self.key)))
        if self.rng.random() < 0.8:
            sock.recv(self.rng.randrange(1, 4096))
        time.sleep(self.rng.random() * 0.02)
        client.reset(sock) if self.rng.random() < 0.5 else sock.close()
        return None

    def bad(self):
        form, octets = "application/json", "application/octet-stream"
        status, method, path, body, kind = self.rng.choice([
            (400, "POST", "/v1/completions", b'{"model":', form),
            (400, "POST", "/v1/completions", b'{"model":"couplet","prompt":7}', form),
            (400, "POST", "/v1/completions", b'{"model":"couplet","prompt":"x","n":-1}', form),
            (400, "POST", "/v1/completions", b"[" * 5000, form),
            (404, "POST", "/v1/completions", b'{"model":"nothing","prompt":"x"}', form),
            (404, "GET", "/nothing", None, form),
            (405, "DELETE", "/v1/models", None, form),
            (413, "POST", "/v1/completions", b"x" * (1 << 20) + b"x", form),
            (415, "POST", "/v1/completions", b"x", "text/plain"),
            (400, "PUT", "/v1/states/bad", b"LNST" + bytes(500), octets),
            (404, "GET", "/v1/states/state-never", None, form),
        ])
        reply = self.ask(method, path, body, {"Content-Type": kind} if body is not None else None)
        return self.expect(status, reply)

    def no_key(self):
        headers = self.rng.choice(({}, bearer("wrong")))
        body = {"model": MODEL, "prompt": "海上明月"}
        return self.expect(401, try_call(self.server.port, "POST", "/v1/completions", body, headers, 300))
