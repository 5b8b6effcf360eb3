"""The official Python client, unmodified: pictures made, completed and streamed."""

import asyncio
import base64

import pytest

import images
import png
from images import HEIGHT, PIXELS, SMALL, WIDTH, a_picture
from lazy import lazily

openai = lazily("openai")

TOP = a_picture(WIDTH, 5)


@pytest.fixture
def api(image_port):
    url = f"http://127.0.0.1:{image_port}/v1"
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        yield client


def values_of(item):
    return png.read(base64.b64decode(item.b64_json)).values


def test_generate(api):
    answer = api.images.generate(
        model=SMALL, prompt="a digit", n=3, size="14x14", quality="high", background="opaque",
        output_format="png", response_format="b64_json", user="me", extra_body={"seed": 7},
    )  # fmt: skip
    assert len(answer.data) == 3
    assert all(len(values_of(item)) == PIXELS for item in answer.data)
    assert answer.usage.output_tokens == 3 * PIXELS
    assert answer.usage.input_tokens_details.image_tokens == 0
    assert answer.size == "14x14" and answer.output_format == "png"
    assert answer.background == "opaque"
    again = api.images.generate(model=SMALL, prompt="another", n=3, extra_body={"seed": 7})
    assert [item.b64_json for item in again.data] == [item.b64_json for item in answer.data]


def test_edit(api):
    image = png.write(WIDTH, 5, TOP)
    answer = api.images.edit(model=SMALL, image=image, prompt="finish it", n=2)
    assert [values_of(item)[: len(TOP)] for item in answer.data] == [TOP, TOP]
    assert answer.usage.input_tokens == len(TOP)


def test_edit_of_a_list_with_a_mask(api):
    full = png.write(WIDTH, HEIGHT, a_picture())
    kept = len(TOP) + 3
    alpha = b"\xff" * kept + bytes(PIXELS - kept)
    mask = png.write(WIDTH, HEIGHT, png.with_alpha(bytes(PIXELS), alpha), png.GREY_ALPHA)
    answer = api.images.edit(
        model=SMALL, image=[("a.png", full, "image/png")], mask=("m.png", mask, "image/png"),
        prompt="finish it", size="14x14", extra_body={"seed": 1, "temperature": 0.5},
    )  # fmt: skip
    assert values_of(answer.data[0])[:kept] == a_picture()[:kept]
    assert answer.usage.input_tokens == kept


def test_edit_from_a_file(api, tmp_path):
    path = tmp_path / "half.png"
    path.write_bytes(png.write(WIDTH, 5, TOP))
    with path.open("rb") as file:
        answer = api.images.edit(model=SMALL, image=file, prompt="finish it")
    assert values_of(answer.data[0])[: len(TOP)] == TOP


def test_generate_streamed(api):
    whole = api.images.generate(model=SMALL, prompt="x", extra_body={"seed": 3}).data[0]
    stream = api.images.generate(
        model=SMALL, prompt="x", stream=True, partial_images=2, extra_body={"seed": 3}
    )
    events = list(stream)
    assert [event.type for event in events] == [
        "image_generation.partial_image", "image_generation.partial_image",
        "image_generation.completed",
    ]  # fmt: skip
    partial, last = events[:2], events[2]
    assert type(partial[0]).__name__ == "ImageGenPartialImageEvent"
    assert type(last).__name__ == "ImageGenCompletedEvent"
    assert [event.partial_image_index for event in partial] == [0, 1]
    assert last.b64_json == whole.b64_json
    assert last.usage.output_tokens == PIXELS
    made = -(-PIXELS // 3)
    assert values_of(partial[0]) == values_of(last)[:made] + bytes(PIXELS - made)


def test_edit_streamed(api):
    image = png.write(WIDTH, 5, TOP)
    events = list(
        api.images.edit(model=SMALL, image=image, prompt="x", stream=True, partial_images=1, n=2)
    )
    kinds = [event.type for event in events]
    assert kinds.count("image_edit.partial_image") == kinds.count("image_edit.completed") == 2
    for event in events:
        assert values_of(event)[: len(TOP)] == TOP
        assert event.size == "14x14"


def test_stream_can_be_closed_early(api, image_server):
    with api.images.generate(
        model=SMALL, prompt="x", n=500, stream=True, extra_body={"stream_unit": "row"}
    ) as stream:
        next(iter(stream))
    image_server.wait_idle()


def test_async_client(image_port):
    async def run():
        url = f"http://127.0.0.1:{image_port}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="x") as client:
            generate = client.images.generate
            answers = await asyncio.gather(
                *(generate(model=SMALL, prompt="x", extra_body={"seed": i % 4}) for i in range(8))
            )
            return [answer.data[0].b64_json for answer in answers]

    found = asyncio.run(run())
    assert found[:4] == found[4:] and len(set(found)) == 4


def test_errors_have_the_clients_types(api):
    with pytest.raises(openai.BadRequestError) as caught:
        api.images.generate(model=SMALL, prompt="x", size="1024x1024")
    assert caught.value.param == "size"
    with pytest.raises(openai.BadRequestError) as caught:
        api.images.generate(model=SMALL, prompt="x", n=100_000)
    assert caught.value.param == "n"
    with pytest.raises(openai.NotFoundError) as caught:
        api.images.generate(model="gpt-image-1", prompt="x")
    assert caught.value.param == "model" and caught.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as caught:
        api.images.edit(model=SMALL, image=images.data_url(b"x").encode(), prompt="x")
    assert caught.value.param == "image"
    full = png.write(WIDTH, HEIGHT, a_picture())
    with pytest.raises(openai.BadRequestError) as caught:
        api.images.edit(model=SMALL, image=full, mask=full, prompt="x")
    assert caught.value.param == "mask"
