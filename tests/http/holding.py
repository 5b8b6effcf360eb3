"""A request that outlasts any look at the server: so many samples that a few slots need a long time for them, some ten
seconds on the fastest machine. A test sends it when it needs a taken slot or a standing queue, looks for as long as
that takes, and leaves. So the test depends on no machine's speed, and the work is never done."""

import client
import lines
from server import wait_until

FLAGS = ("--max-n", "4096")  # of a server that takes it
LONG = lines.of_length(32)
DRAIN = ("--drain-timeout", "600")  # enough time for all work that must finish
ENDLESS = {"prompt": LONG, "n": 4096}
TOKENS = 4096 * 32
# Pictures that outlast any look, for a server with these flags.
IMAGE_FLAGS = ("--max-images", "40000")
ENDLESS_IMAGES = {"n": 40_000}


def send(port, fields, stream, headers=None):
    """A completion whose answer is not read yet."""
    sock = client.connect(port)
    body = {"model": client.MODEL, **fields, "stream": stream}
    sock.sendall(client.encode_request("POST", "/v1/completions", body, headers, port))
    return sock


def wait_taken(server):
    wait_until(lambda: server.slots_used() == server.metric("linnet_slots"), 60, "all slots taken")


def hold(server, stream=False):
    """All slots of a server of one model are taken until the socket is closed."""
    sock = send(server.port, ENDLESS, stream)
    wait_taken(server)
    return sock
