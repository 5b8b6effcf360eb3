"""Bad requests for images: a 4xx that names the field, with bounded memory."""

import struct
import zlib

import pytest

import client
import images
import png
from client import call
from images import HEIGHT, PIXELS, SMALL, WIDTH, a_picture, edit, edit_json, generate
from server import Server
from settings import MODEL

pytestmark = pytest.mark.asan

VALUES = a_picture()
TOP = png.write(WIDTH, 3, VALUES[: 3 * WIDTH])
FULL = png.write(WIDTH, HEIGHT, VALUES)


def check_refused(reply, param, status=400):
    assert reply.status == status, (reply.status, reply.text[:300])
    error = reply.error
    assert error["param"] == param, error
    return error["message"]


# --- fields ----------------------------------------------------------------------------------

FIELDS = [
    ("n", 0),
    ("n", -1),
    ("n", 1001),
    ("n", 10**30),
    ("n", "3"),
    ("n", 1.5),
    ("size", "28x28"),
    ("size", "14 x 14"),
    ("size", "256x256"),
    ("size", 14),
    ("seed", -2),
    ("seed", 2**53),
    ("seed", "1"),
    ("temperature", -0.5),
    ("temperature", 11),
    ("temperature", "warm"),
    ("prompt", 7),
    ("prompt", ["a"]),
    ("response_format", "url"),
    ("output_format", "jpeg"),
    ("output_format", "webp"),
    ("stream", "yes"),
    ("stream", 1),
    ("partial_images", 1),
    ("stream_unit", "row"),
    ("contact_sheet", "yes"),
    ("model", 1),
    ("timeout_ms", 0),
]


@pytest.mark.parametrize("name, value", FIELDS)
def test_bad_field(image_port, name, value):
    check_refused(generate(image_port, **{name: value}), name)
    check_refused(edit_json(image_port, TOP, **{name: value}), name)


@pytest.mark.parametrize("name, value", [
    ("partial_images", 4), ("partial_images", -1), ("partial_images", "1"),
    ("stream_unit", "column"), ("stream_unit", 1), ("contact_sheet", True),
])  # fmt: skip
def test_bad_field_of_a_stream(image_port, name, value):
    check_refused(generate(image_port, stream=True, **{name: value}), name)


@pytest.mark.parametrize("name, value", [
    ("n", "0"), ("n", "1001"), ("n", "two"), ("n", ""), ("n", "1e1"), ("stream", "maybe"),
    ("temperature", "11"), ("seed", "x"), ("size", "28x28"), ("response_format", "url"),
    ("n", ["1", "1"]),
])  # fmt: skip
def test_bad_field_of_a_form(image_port, name, value):
    check_refused(edit(image_port, TOP, **{name: value}), name)


def test_max_images(image_models):
    with Server("--models", image_models, "--max-images", "2") as server:
        assert generate(server.port, n=2).status == 200
        assert "2" in check_refused(generate(server.port, n=3), "n")
        check_refused(edit(server.port, TOP, n=3), "n")


# --- bodies ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path, kind", [
    (images.GENERATIONS, "multipart/form-data; boundary=x"),
    (images.GENERATIONS, "text/plain"),
    (images.EDITS, "image/png"),
    (images.EDITS, "multipart/mixed; boundary=x"),
    (images.EDITS, "application/x-www-form-urlencoded"),
    (images.SCORE, "text/plain"),
])  # fmt: skip
def test_other_content_types(image_port, path, kind):
    reply = call(image_port, "POST", path, b"{}", {"Content-Type": kind})
    check_refused(reply, "Content-Type", 415)


def post_form(port, body, kind="multipart/form-data; boundary=B"):
    return call(port, "POST", images.EDITS, body, {"Content-Type": kind})


@pytest.mark.parametrize("body", [
    b"", b"--B", b"--B--", b"--B--\r\n", b"image", b"--B\r\n\r\nx\r\n--B--\r\n",
    b"--B\r\nContent-Disposition: form-data\r\n\r\nx\r\n--B--\r\n",
    b'--B\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\nx',
    b'--B\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\nx\r\n--B',
    b"--B\r\n" * 1000, b"\r\n--B" * 10000, b"\0" * 60000,
])  # fmt: skip
def test_bad_form(image_port, body):
    reply = post_form(image_port, body)
    assert reply.status == 400 and reply.error["param"] in ("body", "image"), reply.text


def test_form_without_a_boundary(image_port):
    for kind in ("multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; x"):
        check_refused(post_form(image_port, b"--B--\r\n", kind), "Content-Type")


def test_form_of_many_parts(image_port):
    fields = {f"field{i}": "x" for i in range(40)}
    check_refused(edit(image_port, TOP, **fields), "body")


def test_not_exactly_one_image(image_port):
    image = images.File(TOP)
    for form in ({"model": SMALL}, {"image": [image, image]}, {"image[]": [image, image]}):
        kind, body = images.encode_form(form)
        check_refused(post_form(image_port, body, kind), "image")
    for value in (None, [], [{"image_url": images.data_url(TOP)}] * 2, "x", [{"file_id": "f"}],
                  [{"image_url": "https://example.org/a.png"}], [{"image_url": "data:,x"}],
                  [{"image_url": "data:image/png;base64,!!!!"}]):  # fmt: skip
        reply = call(image_port, "POST", images.EDITS, {"model": SMALL, "images": value})
        check_refused(reply, "images")


# --- files -----------------------------------------------------------------------------------


def damaged_files():
    yield "empty", b""
    yield "text", b"this is not a picture"
    yield "jpeg", b"\xff\xd8\xff\xe0\0\x10JFIF" + bytes(100)
    yield "signature only", FULL[:8]
    yield "header only", FULL[:33]
    yield "cut", FULL[:-20]
    yield "cut data", FULL[: len(FULL) // 2]
    yield "bad checksum of the header", FULL[:29] + b"\0\0\0\0" + FULL[33:]
    yield "bad data", png.assemble(png.header(WIDTH, HEIGHT, 8, 0), b"", b"\x78\x9c" + b"\xff" * 99)
    short = zlib.compress(bytes(20))
    yield "too little data", png.assemble(png.header(WIDTH, HEIGHT, 8, 0), b"", short)
    yield "no data", png.SIGNATURE + png.header(WIDTH, HEIGHT, 8, 0) + png.chunk(b"IEND", b"")
    yield "odd depth", png.write(WIDTH, HEIGHT, VALUES, depth=7)
    yield "odd colour", png.SIGNATURE + png.header(WIDTH, HEIGHT, 8, 5) + FULL[33:]
    yield "no palette", png.write(WIDTH, HEIGHT, VALUES, png.PALETTE)


@pytest.mark.parametrize("name, data", list(damaged_files()), ids=images.name_of)
def test_not_a_png(image_port, name, data):
    check_refused(edit(image_port, data), "image")
    check_refused(edit_json(image_port, data), "image")
    check_refused(edit(image_port, FULL, data), "mask")
    check_refused(images.score(image_port, model=SMALL, image=images.data_url(data)), "image")


SIZES = [(13, 14), (15, 14), (14, 15), (28, 28), (1, 1), (14, 0), (0, 14), (2**31 - 1, 2**31 - 1),
         (65535, 65535), (14, 65535)]  # fmt: skip


@pytest.mark.parametrize("width, height", SIZES)
def test_wrong_size(image_port, width, height):
    count = min(width * height, 1000)
    data = png.assemble(
        png.header(width, height, 8, 0), b"", zlib.compress(bytes(count + min(height, 1000)))
    )
    check_refused(edit(image_port, data), "image")
    check_refused(edit(image_port, FULL, data), "mask")


def mask(alpha):
    return png.write(WIDTH, HEIGHT, png.with_alpha(VALUES, alpha), png.GREY_ALPHA)


def bad_masks():
    keep, go = b"\xff", b"\0"
    yield "opaque", mask(keep * PIXELS)
    yield "bottom kept", mask(go * (PIXELS // 2) + keep * (PIXELS // 2))
    yield "left half kept", mask((keep * 7 + go * 7) * HEIGHT)
    yield "one pixel behind", mask(keep * 14 + go + keep + go * (PIXELS - 16))
    yield "only the last", mask(go * (PIXELS - 1) + keep)
    yield "no alpha", FULL


@pytest.mark.parametrize("name, data", list(bad_masks()), ids=images.name_of)
def test_bad_mask(image_port, name, data):
    check_refused(edit(image_port, FULL, data), "mask")
    check_refused(edit_json(image_port, FULL, data), "mask")
    check_refused(edit(image_port, data), "mask")  # as by the image's own description


def test_a_mask_wants_a_whole_image(image_port):
    check_refused(edit(image_port, TOP, mask(b"\xff" * 14 + bytes(PIXELS - 14))), "image")


def test_mask_of_wrong_size(image_port):
    small = png.write(7, 7, png.with_alpha(bytes(49), bytes(49)), png.GREY_ALPHA)
    assert "7x7" in check_refused(edit(image_port, FULL, small), "mask")


# --- memory ----------------------------------------------------------------------------------


def bombs():
    """Files of 48 KiB in which something inflates to 48 MiB: the data, a text, a profile."""
    data = zlib.compress(bytes(48 << 20), 9)
    assert len(data) < 60_000
    yield png.assemble(png.header(WIDTH, HEIGHT, 8, 0), b"", data)
    for kind in (b"zTXt", b"iCCP"):
        yield png.write(WIDTH, HEIGHT, VALUES, extra=png.chunk(kind, b"x\0\0" + data))


def test_bombs_cost_no_memory(image_server):
    """Data for far more rows than the header says, and a compressed text and profile."""
    files = list(bombs())
    edit(image_server.port, TOP)
    before = image_server.resident_bytes()
    for _ in range(4):
        for data in files:
            reply = edit(image_server.port, data)
            assert reply.status == 400, reply.text[:200]
    assert image_server.resident_bytes() - before < 8 << 20


@pytest.mark.heavy
def test_many_small_chunks(image_port):
    """A file of 5,000 empty data chunks is read or refused, and quickly."""
    raw = b"".join(b"\0" + VALUES[y * WIDTH : (y + 1) * WIDTH] for y in range(HEIGHT))
    chunks = png.chunk(b"IDAT", b"") * 5000
    data = png.assemble(png.header(WIDTH, HEIGHT, 8, 0), chunks[:-12], zlib.compress(raw))
    reply = edit(image_port, data)
    assert reply.status in (200, 400, 413), reply.text[:200]


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_hundred_megabytes(image_server, framing):
    """Refused with 413, from its length alone where that is known."""
    port, before = image_server.port, image_server.resident_bytes()
    kind, form = images.encode_form({"image": images.File(FULL[:33])})
    head = f"POST {images.EDITS} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\n"
    if framing == "length":
        head += f"Content-Length: {100 << 20}\r\n\r\n"
    else:
        head += "Transfer-Encoding: chunked\r\n\r\n"
    block = bytes(1 << 20)
    received = b""
    with client.connect(port) as sock:
        sock.settimeout(client.PATIENCE)
        try:
            sock.sendall(head.encode())
            for _ in range(100):
                part = form[:100] + block
                if framing == "chunked":
                    part = b"%x\r\n%s\r\n" % (len(part), part)
                sock.sendall(part)
        except OSError:
            pass  # refused while it was being sent
        try:
            while part := sock.recv(65536):
                received += part
        except OSError:
            pass
    if received:
        assert client.parse_head(received.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")[0] == 413
    assert image_server.resident_bytes() - before < 8 << 20


def test_body_just_over_the_limit(image_port):
    assert "--max-upload" in check_refused(edit(image_port, bytes(1 << 20)), "body", 413)


# --- scores ----------------------------------------------------------------------------------


def test_bad_scores(image_port):
    url = images.data_url(FULL)
    for fields, param in [
        ({}, "prompt"),
        ({"model": SMALL}, "image"),
        ({"model": SMALL, "image": 7}, "image"),
        ({"model": SMALL, "image": "https://example.org/a.png"}, "image"),
        ({"model": SMALL, "image": images.data_url(TOP)}, "image"),
        ({"model": SMALL, "image": url[:-1]}, "image"),
        ({"model": 1, "image": url}, "model"),
        ({"model": MODEL, "image": url}, "prompt"),
        ({"model": MODEL, "prompt": "海上"}, "completion"),
        ({"model": MODEL, "completion": "海上"}, "prompt"),
        ({"model": MODEL, "prompt": "海上", "completion": "天"}, "completion"),
        ({"model": MODEL, "prompt": "海上", "completion": ""}, "completion"),
        ({"model": MODEL, "prompt": "", "completion": "天"}, "prompt"),
        ({"model": MODEL, "prompt": ["海"], "completion": "天"}, "prompt"),
    ]:
        check_refused(images.score(image_port, **fields), param)
    check_refused(images.score(image_port, model="unknown", image=url), "model", 404)


def test_lengths_that_lie(image_port):
    """A chunk whose length points far past the end of the file."""
    for size in (2**31 - 1, 2**32 - 1, 10**6):
        data = FULL[:33] + struct.pack(">I", size) + FULL[37:]
        check_refused(edit(image_port, data), "image")


def test_data_behind_the_picture_is_not_expanded(image_server):
    """60 MB of zeros in 60 kB after the last row: refused in the time of a small picture."""
    def cost(picture, status):
        before = image_server.cpu_seconds()
        for _ in range(20):
            content_type, body = images.encode_form({"image": images.File(picture), "max_tokens": 1})
            reply = client.call(image_server.port, "POST", images.EDITS, body, {"Content-Type": content_type})
            assert reply.status == status, reply.text
        return reply, image_server.cpu_seconds() - before

    size = images.WIDTH, images.HEIGHT // 2
    rows = b"\0" * (size[0] + 1) * size[1]
    data = zlib.compress(rows + b"\0" * 60_000_000, 9)
    bomb = png.SIGNATURE + png.header(*size, 8, png.GREY) + png.chunk(b"IDAT", data) + png.chunk(b"IEND", b"")
    assert len(bomb) < 64_000
    reply, seconds = cost(bomb, 400)
    assert reply.error["param"] == "image" and "more data" in reply.error["message"]
    assert seconds < 1  # expanding it all takes 0.13 s each
