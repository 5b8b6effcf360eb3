"""A client for Linnet: completions, and the parts of the API that OpenAI's client lacks: states, and pictures from states, from
their first rows and row by row. It needs only Python; docs/http-api.md describes the fields.

    client = Client("http://127.0.0.1:8080")
    half = client.images("mnist", seed=1, max_tokens=392, return_state=True)
    for fork in client.fork_state(half.states[0].id, n=4):
        client.images(state=fork.id).pictures[0].png

    for piece in client.stream("couplet", "海上明月"):
        print(piece.text, end="")

A client has no connection of its own between calls, so threads may share one. AsyncClient has the same methods as coroutines.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import email.utils
import functools
import http.client
import inspect
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, fields
from typing import Any, AsyncIterator, Callable, Iterator, Mapping, Optional, Sequence, TypeVar, Union

T = TypeVar("T")
Body = Union[bytes, Mapping[str, Any], None]


class Failure(Exception):
    """The server said no, or its answer is not this API's, or it was not reached or left in the middle (then `status` is 0). A
    base_url or key that no request can have is a ValueError."""

    def __init__(self, status: int, message: str, param: Optional[str] = None, code: Optional[str] = None,
                 retry_after: Optional[float] = None):
        super().__init__(message)
        self.status, self.param, self.code, self.retry_after = status, param, code, retry_after


@dataclass(frozen=True)
class State:
    """A kept state. Fields that only its own route has are None in an answer's list."""
    id: str
    tokens: int  # generated so far
    position: int  # input rows seen
    bytes: int
    memory_bytes: int
    model: Optional[str] = None
    model_hash: Optional[str] = None
    modality: Optional[str] = None
    made_by: Optional[str] = None
    seed: Optional[int] = None
    sample: Optional[int] = None
    n_layers: Optional[int] = None
    expires_in_s: Optional[int] = None


@dataclass(frozen=True)
class Look:
    """One head of a state: of linear attention s (rows are keys) and z, of other kinds what docs/http-api.md names, in
    `rest`."""
    layer: int
    head: int
    n_layers: int
    n_heads: int
    s: Optional[list[list[float]]]
    z: Optional[list[float]]
    rest: Mapping[str, Any]


@dataclass(frozen=True)
class Picture:
    png: bytes
    bits_per_dim: Optional[float] = None
    index: int = 0


@dataclass(frozen=True)
class Values:
    """Of a stream: new values of picture `index`, from place `start` of its raster on."""
    index: int
    start: int
    values: list[int]


@dataclass(frozen=True)
class Images:
    pictures: list[Picture]
    states: list[Optional[State]]  # None for a state that the server could not keep; warnings say why
    seed: Optional[int]
    warnings: list[Mapping[str, Any]]  # param and message


@dataclass(frozen=True)
class Continuation:
    """The text after a state or a prompt."""
    texts: list[str]
    states: list[Optional[State]]  # None for a state that the server could not keep; warnings say why
    seed: Optional[int]
    warnings: list[Mapping[str, Any]]  # param and message


@dataclass(frozen=True)
class Piece:
    """Of a stream: new text of answer `index`. The last piece of an answer has the reason of its end."""
    index: int
    text: str
    finish_reason: Optional[str] = None


@dataclass(frozen=True)
class Listed:
    """A kept state or response in the list of all."""
    id: str
    object: str
    bytes: int
    expires_in_s: int


def _state(facts: Mapping[str, Any]) -> State:
    return State(**{field.name: facts[field.name] for field in fields(State) if field.name in facts})


def _states(answer: Mapping[str, Any]) -> list[Optional[State]]:
    return [_state(facts) if facts["id"] is not None else None for facts in answer.get("states", [])]


def _path(id: str, rest: str = "") -> str:
    return f"/v1/states/{urllib.parse.quote(id, safe='')}{rest}"


def _picture(entry: Mapping[str, Any]) -> Picture:
    return Picture(base64.b64decode(entry["b64_json"]), entry.get("bits_per_dim"), entry.get("index", 0))


def _data_url(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _given(**values: Any) -> dict[str, Any]:
    """The given fields only, because the server has its own defaults."""
    return {name.rstrip("_"): value for name, value in values.items() if value is not None}


def _seconds(wait: Optional[str]) -> Optional[float]:
    """Of Retry-After: a number, or a date."""
    if wait is None or wait.strip().isdecimal():
        return float(wait) if wait else None
    try:
        return max(0.0, email.utils.parsedate_to_datetime(wait).timestamp() - time.time())
    except (ValueError, TypeError):  # Python 3.9 has the second one
        return None


def _envelope(status: int, said: Mapping[str, Any], wait: Optional[float] = None) -> Failure:
    return Failure(status, said["message"], said.get("param"), said.get("code"), wait)


def _failure(error: urllib.error.HTTPError) -> Failure:
    text, wait = "", _seconds(error.headers.get("Retry-After"))
    with contextlib.suppress(OSError, http.client.HTTPException):  # the status says enough
        text = error.read().decode("utf-8", "replace")
    try:
        return _envelope(error.code, json.loads(text)["error"], wait)
    except (ValueError, LookupError, TypeError, AttributeError):
        return Failure(error.code, text[:200] or error.reason, retry_after=wait)


def _read(read: Callable[[dict[str, Any]], T], text: bytes) -> T:
    """What `read` finds in an object."""
    try:
        return read(json.loads(text) if text else {})
    except (ValueError, LookupError, TypeError, AttributeError):
        shown = text.decode("utf-8", "replace")[:200]
        raise Failure(200, f"the answer is not this API's: {shown or 'it is empty'}") from None


class Client:
    def __init__(self, base_url: str = "http://127.0.0.1:8080", api_key: Optional[str] = None, timeout: float = 600.0):
        """timeout: seconds without a byte from the server."""
        self.base_url, self.api_key, self.timeout = base_url.rstrip("/"), api_key, timeout

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        """Failures of the connection are Failure."""
        try:
            yield
        except urllib.error.HTTPError as error:
            raise _failure(error) from None
        except http.client.InvalidURL as error:
            raise ValueError(f"{self.base_url}: {error}") from None
        except (OSError, http.client.HTTPException) as error:
            raise Failure(0, f"{self.base_url}: {getattr(error, 'reason', None) or str(error) or type(error).__name__}") from None

    def _open(self, method: str, path: str, body: Body = None, accept: str = "application/json"):
        headers = {"Accept": accept}
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key}"
        if isinstance(body, bytes):
            headers["Content-Type"] = "application/octet-stream"
        elif body is not None:
            headers["Content-Type"], body = "application/json", json.dumps(body).encode()
        request = urllib.request.Request(self.base_url + path, body, headers, method=method)
        with self._failures():
            return urllib.request.urlopen(request, timeout=self.timeout)

    def _fetch(self, method: str, path: str, body: Body = None, accept: str = "application/json") -> bytes:
        with self._failures(), self._open(method, path, body, accept) as answer:
            return answer.read()

    def _call(self, read: Callable[[dict[str, Any]], T], method: str, path: str, body: Body = None) -> T:
        """What `read` finds in the answer."""
        return _read(read, self._fetch(method, path, body))

    # --- states

    def make_state(self, model: str, prompt: Optional[str] = None, *, image: Optional[bytes] = None, mask: Optional[bytes] = None,
                   class_: Optional[int] = None, seed: Optional[int] = None, rules: Optional[bool] = None) -> State:
        """The state after a prompt, or of a model of images after the pixels of a PNG."""
        return self._call(_state, "POST", "/v1/states", _given(
            model=model, prompt=prompt, class_=class_, seed=seed, rules=rules, image=_data_url(image) if image is not None else None,
            mask=_data_url(mask) if mask is not None else None))

    def state(self, id: str) -> State:
        return self._call(_state, "GET", _path(id))

    def fetch_state(self, id: str) -> bytes:
        return self._fetch("GET", _path(id), accept="application/octet-stream")

    def put_state(self, id: str, data: bytes) -> State:
        return self._call(_state, "PUT", _path(id), data)

    def delete_state(self, id: str) -> None:
        self._fetch("DELETE", _path(id))

    def fork_state(self, id: str, n: Optional[int] = None, seeds: Optional[Sequence[int]] = None) -> list[State]:
        """Copies, each another sample of the state's seed, or of a seed of its own."""
        n = len(seeds) if seeds is not None and n is None else n
        return self._call(lambda answer: [_state(facts) for facts in answer["data"]], "POST", _path(id, "/fork"),
                          _given(n=n, seeds=list(seeds) if seeds is not None else None))

    def inspect_state(self, id: str, layer: int, head: int) -> Look:
        return self._call(_look, "GET", _path(id, f"/inspect?layer={layer}&head={head}"))

    def resume(self, state: Union[str, bytes], *, max_tokens: Optional[int] = None, n: Optional[int] = None, seed: Optional[int] = None,
               temperature: Optional[float] = None, return_state: bool = False) -> Continuation:
        """Text from a state, by its id or its bytes."""
        return self._call(_continuation, "POST", "/v1/completions", _given(
            state=_name(state), max_tokens=max_tokens, n=n, seed=seed, temperature=temperature, return_state=return_state or None))

    def states(self, limit: Optional[int] = None) -> Iterator[Listed]:
        """All states and responses of the key, by their ids, page by page. limit: of a page."""
        after: Optional[str] = None
        while True:
            query = urllib.parse.urlencode(_given(limit=limit, after=after))
            page, has_more = self._call(_page, "GET", "/v1/states" + ("?" + query if query else ""))
            yield from page
            if not has_more:
                return
            after = page[-1].id

    # --- texts

    def complete(self, model: Optional[str] = None, prompt: Optional[str] = None, *, max_tokens: Optional[int] = None,
                 n: Optional[int] = None, seed: Optional[int] = None, temperature: Optional[float] = None,
                 stop: Union[str, Sequence[str], None] = None, return_state: bool = False, **more: Any) -> Continuation:
        """Text after a prompt. more: any other field of POST /v1/completions."""
        return self._call(_continuation, "POST", "/v1/completions", _given(
            model=model, prompt=prompt, max_tokens=max_tokens, n=n, seed=seed, temperature=temperature, stop=stop,
            return_state=return_state or None, **more))

    def stream(self, model: Optional[str] = None, prompt: Optional[str] = None, *, state: Union[str, bytes, None] = None,
               max_tokens: Optional[int] = None, n: Optional[int] = None, seed: Optional[int] = None,
               temperature: Optional[float] = None, stop: Union[str, Sequence[str], None] = None, **more: Any) -> Iterator[Piece]:
        """The text as it is made, after a prompt or a state. Leaving the loop ends the request."""
        body = _given(model=model, prompt=prompt, state=_name(state), max_tokens=max_tokens, n=n, seed=seed, temperature=temperature,
                      stop=stop, stream=True, **more)
        yield from self._events(_pieces, "/v1/completions", body)

    def _events(self, read: Callable[[dict[str, Any]], list[T]], path: str, body: Mapping[str, Any], ends: int = 1) -> Iterator[T]:
        """What `read` finds in each event. ends: how many the answer has: [DONE] is one, and each picture."""
        with self._failures(), self._open("POST", path, body, "text/event-stream") as answer:
            for line in answer:
                if not line.startswith(b"data: ") or not line.endswith(b"\n"):  # the second has lost its rest
                    continue
                if line.startswith(b"data: [DONE]"):
                    ends -= 1
                    continue
                for part in _read(functools.partial(_of_event, read), line[6:]):
                    ends -= isinstance(part, Picture)
                    yield part
            if ends > 0:  # a connection that ends between two chunks is no error of http.client
                raise Failure(0, f"{self.base_url}: the answer has no end: the server left in the middle")

    # --- images

    def images(self, model: Optional[str] = None, *, prompt: Optional[str] = None, class_: Optional[int] = None,
               state: Union[str, bytes, None] = None, n: Optional[int] = None, seed: Optional[int] = None,
               temperature: Optional[float] = None, max_tokens: Optional[int] = None, return_state: bool = False,
               contact_sheet: bool = False) -> Images:
        """Pictures from nothing, or from a state."""
        return self._call(_images, "POST", "/v1/images/generations", _given(
            model=model, prompt=prompt, class_=class_, state=_name(state), n=n, seed=seed, temperature=temperature,
            max_tokens=max_tokens, return_state=return_state or None, contact_sheet=contact_sheet or None))

    def complete_image(self, image: bytes, model: Optional[str] = None, *, mask: Optional[bytes] = None, class_: Optional[int] = None,
                       n: Optional[int] = None, seed: Optional[int] = None, temperature: Optional[float] = None,
                       contact_sheet: bool = False) -> Images:
        """Pictures that begin with the kept pixels of a PNG: its first rows, or the pixels that its mask or transparency keeps."""
        return self._call(_images, "POST", "/v1/images/edits", _given(
            model=model, class_=class_, n=n, seed=seed, temperature=temperature, contact_sheet=contact_sheet or None,
            images=[{"image_url": _data_url(image)}], mask={"image_url": _data_url(mask)} if mask is not None else None))

    def paint(self, model: Optional[str] = None, *, unit: str = "row", prompt: Optional[str] = None, class_: Optional[int] = None,
              state: Union[str, bytes, None] = None, n: Optional[int] = None, seed: Optional[int] = None,
              temperature: Optional[float] = None) -> Iterator[Union[Values, Picture]]:
        """Values as they are made, in whole rows or pixels, and every picture when it is done. Leaving the loop ends the
        request."""
        body = _given(model=model, prompt=prompt, class_=class_, state=_name(state), n=n, seed=seed, temperature=temperature,
                      stream=True, stream_unit=unit)
        yield from self._events(_painted, "/v1/images/generations", body, 1 if n is None else n)


def _name(state: Union[str, bytes, None]) -> Optional[str]:
    return base64.b64encode(state).decode() if isinstance(state, bytes) else state


def _images(answer: Mapping[str, Any]) -> Images:
    return Images([_picture(entry) for entry in answer["data"]], _states(answer), answer.get("seed"), answer.get("warnings", []))


def _look(said: dict[str, Any]) -> Look:
    own = {name: said.pop(name) for name in ("layer", "head", "n_layers", "n_heads")}
    return Look(s=said.pop("s", None), z=said.pop("z", None), rest=said, **own)


def _continuation(answer: Mapping[str, Any]) -> Continuation:
    return Continuation([choice["text"] for choice in answer["choices"]], _states(answer), answer.get("seed"), answer.get("warnings", []))


def _page(answer: Mapping[str, Any]) -> tuple[list[Listed], bool]:
    """Of the list of states, and whether others follow."""
    listed = [Listed(**{field.name: facts[field.name] for field in fields(Listed)}) for facts in answer["data"]]
    return listed, answer["has_more"] and bool(listed)


def _of_event(read: Callable[[dict[str, Any]], list[T]], event: dict[str, Any]) -> list[T]:
    if "error" in event:
        raise _envelope(200, event["error"])
    return read(event)


def _pieces(event: Mapping[str, Any]) -> list[Piece]:
    return [Piece(choice["index"], choice["text"], choice.get("finish_reason")) for choice in event.get("choices", ())]


def _painted(event: Mapping[str, Any]) -> list[Union[Values, Picture]]:
    if event["type"].endswith(".values"):
        return [Values(event["index"], event["start"], event["values"])]
    return [_picture(event)] if event["type"].endswith((".completed", ".parked")) else []


class AsyncClient:
    """The methods of Client, for asyncio: each is awaited, and states, stream and paint are looped over by `async for`. A thread
    per call waits for the server.

        client = AsyncClient("http://127.0.0.1:8080")
        answers = await asyncio.gather(*(client.complete("couplet", "海上明月", seed=i) for i in range(8)))
    """

    def __init__(self, base_url: str = "http://127.0.0.1:8080", api_key: Optional[str] = None, timeout: float = 600.0):
        self.client = Client(base_url, api_key, timeout)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.client, name)
        if name.startswith("_") or not callable(method):
            raise AttributeError(name)
        if inspect.isgeneratorfunction(method):
            return lambda *args, **options: _each(method(*args, **options))
        return functools.partial(asyncio.to_thread, method)


async def _each(items: Any) -> AsyncIterator[Any]:
    """The items of an iterator, each of which a thread waits for. Leaving the loop closes the iterator."""
    end = object()
    try:
        while (item := await asyncio.to_thread(next, items, end)) is not end:
            yield item
    finally:
        with contextlib.suppress(ValueError):  # a thread still waits for the next item, when the task was cancelled
            items.close()
