"""The pad of the images' tab: drawings by mouse, finger and keys are completed; digits that are asked for."""

import json
import re

import pytest
from playwright.sync_api import expect

import image_model
from conftest import running
from test_images import DECODED, N, PHONE, VALUES, api, image_model_of, images, paint, painted, stroke, urls_of  # noqa: F401 (a fixture)


def prefix_sent(page):
    """Records the bodies of requests for edits; returns their list."""
    bodies = []

    def note(request):
        if request.url.endswith("/v1/images/edits"):
            bodies.append(json.loads(request.post_data))

    page.on("request", note)
    return bodies


def test_a_drawing_by_mouse_is_completed(images):
    page = images()
    bodies = prefix_sent(page)
    width = page.locator("#pad").evaluate("(c) => c.width")
    stroke(page, [(9, 7), (13, 5), (18, 7), (18, 10), (14, 15)])
    pad = page.evaluate(VALUES, "#pad")[0]
    assert max(pad) == 255 and any(0 < v < 255 for v in pad)  # a soft edge
    assert pad[0] == 0 and pad[-1] == 0
    page.focus("#kept")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".kept-rows")).to_have_text("Keep the first 12 rows")
    veil = page.locator(".veil").bounding_box()
    box = page.locator("#pad").bounding_box()
    assert abs(veil["y"] - (box["y"] + box["height"] * 12 / width)) < 3
    paint(page, seed=5, button="#complete")
    values = painted(page)
    kept = pad[: 12 * width]
    assert len(values) == N and all(picture[: 12 * width] == kept for picture in values)
    assert page.evaluate(DECODED, [bodies[0]["images"][0]["image_url"]]) == [kept]
    answer = api(page, "v1/images/edits", {**bodies[0], "stream": False, "stream_unit": None})
    assert values == page.evaluate(DECODED, urls_of(answer))
    rows = image_model_of(page)["meta"]["height"]
    expect(page.locator(".made .text")).to_have_text(re.compile(f" of {N * (rows - 12) * width:,} pixels"))
    assert "rows=12&ink=" in page.evaluate("location.hash")


def test_a_drawing_by_finger_on_a_phone(images):
    page = images(**PHONE)
    page.locator("#pad").scroll_into_view_if_needed()
    box = page.locator("#pad").bounding_box()
    top = page.evaluate("scrollY")
    touch = page.context.new_cdp_session(page)
    for kind, places in [("touchStart", [(0.3, 0.1)]), ("touchMove", [(0.5, 0.2)]),
                         ("touchMove", [(0.5, 0.45)]), ("touchEnd", [])]:
        points = [{"x": box["x"] + x * box["width"], "y": box["y"] + y * box["height"]} for x, y in places]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    pad = page.evaluate(VALUES, "#pad")[0]
    width = page.locator("#pad").evaluate("(c) => c.width")
    inked = {i // width for i, v in enumerate(pad) if v > 128}
    assert min(inked) <= 3 and max(inked) >= 11  # rows from 0.1 to 0.45 of 28
    assert page.evaluate("scrollY") == top  # the finger drew and did not scroll
    paint(page, button="#complete")
    values = painted(page)
    kept = width * (len(pad) // width // 2)
    assert all(picture[:kept] == pad[:kept] for picture in values)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for selector in ("#paint", ".tiles", "#pad", "#heat", ".easel", "#image-seed"):
        box = page.locator(selector).bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 360, selector


def test_a_drawing_by_keys(images):
    page = images()
    expect(page.locator(".nib")).to_be_hidden()
    page.focus("#clear")
    page.keyboard.press("Shift+Tab")
    while page.evaluate("document.activeElement.id") != "pad":
        page.keyboard.press("Shift+Tab")
    expect(page.locator(".nib")).to_be_visible()
    page.keyboard.press("ArrowRight")  # lifted, it leaves no ink
    assert set(page.evaluate(VALUES, "#pad")[0]) == {0}
    page.keyboard.press("Space")
    for _ in range(6):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    pad = page.evaluate(VALUES, "#pad")[0]
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(VALUES, "#pad")[0] == pad
    inked = [i for i, v in enumerate(pad) if v > 128]
    assert len({i // 28 for i in inked}) >= 7 and len({i % 28 for i in inked}) <= 4
    paint(page, button="#complete")
    painted(page)


def test_digits_have_a_box_and_drawings_go_into_it(images):
    page = images()
    frame, box = page.locator(".frame").bounding_box(), page.locator("#pad").bounding_box()
    assert frame["width"] == pytest.approx(box["width"] * 20 / 28, abs=2)
    assert frame["x"] - box["x"] == pytest.approx(box["width"] * 4 / 28, abs=2)
    expect(page.locator("#centre")).to_be_disabled()
    stroke(page, [(3, 9), (7, 9), (7, 13)])
    drawn = page.evaluate(VALUES, "#pad")[0]
    page.click("#centre")
    moved = page.evaluate(VALUES, "#pad")[0]
    assert sorted(moved) == sorted(drawn)
    inked = [i for i, v in enumerate(moved) if v > 0]
    assert min(inked) // 28 == 4
    assert abs(min(i % 28 for i in inked) + max(i % 28 for i in inked) - 27) <= 1


DIGITS = [f"{i} {word}" for i, word in enumerate("zero one two three four five six seven eight nine".split())]


@pytest.fixture(scope="session")
def asked(tmp_path_factory):
    """A server of a model with classes for digits, listed after one without classes; their weights are random."""
    folder = tmp_path_factory.mktemp("models")
    image_model.write(folder / "colours", 32, 32, channels=3, head_sizes=(64, 64))
    image_model.write(folder / "digits", 28, 28, classes=DIGITS)
    with running(folder) as address:
        yield address


def test_the_claim_tells_the_state_of_the_tabs_own_model(asked, open_page):
    page = open_page("#images", at=asked)
    painted(page)
    models = page.request.get(f"{asked}/v1/models").json()["data"]
    sizes = {m["id"]: m["meta"]["state_bytes"] / 1024 for m in models}
    assert models[0]["id"] == "colours" and sizes["colours"] > 2 * sizes["digits"]
    expect(page.locator(".claim .en .state-size")).to_have_text(f" ({round(sizes['digits'])} KiB here)")


def test_digits_that_obey(asked, open_page):
    page = open_page("#images", at=asked)
    painted(page)
    assert page.locator("#pad").evaluate("(pad) => pad.width") == 28
    buttons = page.locator("#wishes button")
    assert buttons.all_inner_texts() == [*"0123456789", "surprise"]
    expect(buttons.last).to_have_attribute("aria-pressed", "false")
    page.fill("#image-n", str(N))
    sent = []
    page.on("request", lambda request: request.url.endswith("/generations") and sent.append(json.loads(request.post_data)))
    page.evaluate("window.before = document.querySelector('.tiles canvas').sample")
    buttons.nth(7).focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('.tiles canvas').sample !== window.before")
    values = painted(page)
    assert sent[0]["class"] == 7 and sent[0]["n"] == N
    expect(buttons.nth(7)).to_have_attribute("aria-pressed", "true")
    fields = {"prompt": "a seven", "n": N, "seed": sent[0]["seed"], "temperature": 1}
    assert values == page.evaluate(DECODED, urls_of(api(page, "v1/images/generations", fields)))
    link = page.evaluate("location.hash")
    assert link.endswith("&class=7")
    other = open_page(link, at=asked)
    assert painted(other) == values
    expect(other.locator("#wishes button").nth(7)).to_have_attribute("aria-pressed", "true")
    stroke(other, [(9, 7), (18, 7), (14, 12)])
    with other.expect_request("**/v1/images/edits") as edit:
        other.click("#complete")
    assert json.loads(edit.value.post_data)["class"] == 7


def test_there_are_no_buttons_without_classes(images):
    page = images()
    if image_model_of(page)["meta"]["classes"]:
        pytest.skip("the model that is served can be asked")
    expect(page.locator("#wishes")).to_be_hidden()


def test_the_chosen_picture_can_be_drawn_on(images):
    page = images()
    paint(page)
    values = painted(page)
    page.focus("#take")
    page.keyboard.press("Enter")
    assert page.evaluate(VALUES, "#pad") == values[:1]
    page.click("#clear")
    assert set(page.evaluate(VALUES, "#pad")[0]) == {0}
    page.click("#complete")
    expect(page.locator("#image-error")).to_contain_text("draw something")


@pytest.mark.parametrize("width, height, channels", [(28, 5, 1), (3, 2, 3), (400, 200, 1)])
def test_png_is_what_was_drawn(open_page, width, height, channels):
    """The page's own PNG writer, read by the browser; the largest has more than one block."""
    drawn, read = open_page().evaluate(
        """async ([width, height, channels]) => {
            const { pngUrl } = await import('/picture.js');
            const values = Uint8Array.from({ length: width * height * channels }, (_, i) => (i * 37) % 256);
            const image = Object.assign(new Image(), { src: pngUrl(values, width, height, channels) });
            await image.decode();
            const context = new OffscreenCanvas(width, height).getContext('2d');
            context.drawImage(image, 0, 0);
            const { data } = context.getImageData(0, 0, width, height);
            const rgb = Array.from(data).filter((_, i) => i % 4 < channels);
            return [Array.from(values), rgb];
        }""",
        [width, height, channels],
    )
    assert read == drawn
