"""Requests to the images routes and their answers, for several test files."""

import base64
import json
from dataclasses import dataclass

import client
import png
from client import call

GENERATIONS, EDITS, SCORE = "/v1/images/generations", "/v1/images/edits", "/v1/score"

# The models of the `image_server` fixture.
SMALL, COLOUR = "squares", "tiles"
SPECKS, SPECKS_SIDE = "specks", 9  # for a request or two per value
WIDTH, HEIGHT = 14, 14
PIXELS = WIDTH * HEIGHT
COLOUR_WIDTH, COLOUR_HEIGHT = 6, 5
# One that can be asked for something.
CLASSES = "things"
CLASS_NAMES = ["circle ring o 圆", "square box 方", "line 1 一"]


@dataclass
class File:
    data: bytes
    name: str = "picture.png"


def encode_form(fields, boundary="----a-boundary-7"):
    """(content type, body) of a form; a value is text, a number, a File or a list of them."""
    body = b""
    for name, values in fields.items():
        for value in values if isinstance(values, list) else [values]:
            head = f'Content-Disposition: form-data; name="{name}"'
            if isinstance(value, File):
                head += f'; filename="{value.name}"\r\nContent-Type: image/png'
                data = value.data
            else:
                data = (json.dumps(value) if not isinstance(value, str) else value).encode()
            body += f"--{boundary}\r\n{head}\r\n\r\n".encode() + data + b"\r\n"
    return f"multipart/form-data; boundary={boundary}", body + f"--{boundary}--\r\n".encode()


def data_url(data):
    return "data:image/png;base64," + base64.b64encode(data).decode()


def generate(port, **fields):
    return call(port, "POST", GENERATIONS, {"model": SMALL, **fields})


def generate_ok(port, **fields):
    reply = generate(port, **fields)
    assert reply.status == 200, reply.text
    return reply.json()


def states_of_every_value(port, size, **fields):
    """Ids of the states after 1, 2, ... values of a picture, each made from the one before."""
    found, start = [], fields
    for _ in range(size - 1):
        answer = generate_ok(port, **start, max_tokens=1, return_state=True)
        found.append(answer["states"][0]["id"])
        start = {"model": fields["model"], "state": found[-1]}
    return found


def picture_from(port, state, **fields):
    """The final file of an image that continues from a state."""
    (data,) = files(generate_ok(port, **fields, state=state))
    return data


def edit(port, image, mask=None, **fields):
    """An edit as a form."""
    form = {"model": SMALL, **fields, "image": File(image)}
    if mask is not None:
        form["mask"] = File(mask)
    kind, body = encode_form(form)
    return call(port, "POST", EDITS, body, {"Content-Type": kind})


def edit_ok(port, image, mask=None, **fields):
    reply = edit(port, image, mask, **fields)
    assert reply.status == 200, reply.text
    return reply.json()


def edit_json(port, image, mask=None, **fields):
    body = {"model": SMALL, **fields, "images": [{"image_url": data_url(image)}]}
    if mask is not None:
        body["mask"] = {"image_url": data_url(mask)}
    return call(port, "POST", EDITS, body)


def score(port, **fields):
    return call(port, "POST", SCORE, fields)


def files(answer):
    """The PNG files of an answer, in its order."""
    return [base64.b64decode(item["b64_json"], validate=True) for item in answer["data"]]


def pictures(answer):
    return [png.read(data) for data in files(answer)]


def content(answer):
    """All fields of an answer that the request decides: not the time, and not the cached tokens."""
    usage = {k: v for k, v in answer["usage"].items() if k != "input_tokens_details"}
    return {k: v for k, v in answer.items() if k not in ("created", "timings")} | {"usage": usage}


def name_of(parameter):
    """The id of a parameter set: its name; the rest, files, has none."""
    return parameter if isinstance(parameter, str) else ""


def a_picture(width=WIDTH, height=HEIGHT, channels=1):
    """Values that all differ from a model's likely guesses."""
    return bytes((i * 37 + i // 7 * 11) % 256 for i in range(width * height * channels))


# --- streams ---------------------------------------------------------------------------------


def parse_events(body):
    """(name, object) of every event; the name must be the object's type. No [DONE] at the end."""
    assert body.endswith(b"\n\n")
    events = []
    for frame in body[:-2].split(b"\n\n"):
        if frame.startswith(b":"):
            continue
        name, data = frame.split(b"\n")
        assert name.startswith(b"event: ") and data.startswith(b"data: "), frame[:200]
        name, data = name[7:].decode(), json.loads(data[6:])
        assert name == data.get("type", "error"), (name, data)
        events.append((name, data))
    return events


def check_stream_head(reply):
    assert reply.status == 200, reply.text
    assert reply.headers["content-type"].startswith("text/event-stream"), reply.headers


def stream_ok(port, **fields):
    reply = generate(port, stream=True, **fields)
    check_stream_head(reply)
    return parse_events(reply.body)


def of_kind(events, kind):
    return [data for name, data in events if name.endswith("." + kind)]


def mask_keeping(pixels):
    return png.write(WIDTH, HEIGHT, png.with_alpha(bytes(PIXELS), b"\xff" * pixels + bytes(PIXELS - pixels)), png.GREY_ALPHA)


def completed(events):
    """PNG files by sample."""
    found = {e["index"]: base64.b64decode(e["b64_json"]) for e in of_kind(events, "completed")}
    assert len(found) == len(of_kind(events, "completed")), "a sample was completed twice"
    return found


def told_values(events, start):
    """The values of each sample, put together; each event must begin where the last one ended."""
    told = {}
    for event in of_kind(events, "values"):
        have = told.setdefault(event["index"], [])
        assert event["start"] == start + len(have), event
        assert event["values"], event
        have.extend(event["values"])
    return {index: bytes(values) for index, values in told.items()}


async def request(connection, fields):
    """One images request on a keep-alive connection."""
    return await connection.request("POST", GENERATIONS, {"model": SMALL, **fields})


def connect_and_send(port, fields, path=GENERATIONS):
    """A request whose answer is not read yet."""
    sock = client.connect(port)
    sock.sendall(client.encode_request("POST", path, {"model": SMALL, **fields}, port=port))
    return sock
