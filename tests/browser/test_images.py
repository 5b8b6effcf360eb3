"""The images' tab: painting live, completing a drawing, the surprise map, tabs, links, errors."""

import base64
import json
import re

import pytest
from playwright.sync_api import expect

import image_model
from conftest import ROOT, running
from watching import drawn, emptied

PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
REFUSED = r"status of 4\d\d"  # Chromium reports every refused request as a console error
N = 2  # pictures in tests that need no more

# The values a canvas shows, found through the colours of /picture.js; null where nothing is painted.
# Two neighbouring values may have one colour: the larger stands for both, here and in DECODED.
VALUES = """async (selector) => {
    const { INK } = await import('/picture.js');
    const values = new Map(INK.map((rgb, v) => [String(rgb), v]));
    return Array.from(document.querySelectorAll(selector), (canvas) => {
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return Array.from({ length: data.length / 4 }, (_, i) => (
            data[4 * i + 3] ? values.get(String(data.slice(4 * i, 4 * i + 3))) : null));
    });
}"""

# The values of some grey PNGs.
DECODED = """async (urls) => {
  const { INK } = await import('/picture.js');
  const values = new Map(INK.map((rgb, v) => [String(rgb), v]));
  return Promise.all(urls.map(async (url) => {
    const image = Object.assign(new Image(), { src: url });
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    return Array.from({ length: data.length / 4 }, (_, i) => values.get(String(INK[data[4 * i]])));
  }));
}"""


def image_model_of(page):
    """The tab's model: the first served one with classes, if one has any."""
    models = page.context.request.get(page.url.split("#")[0] + "v1/models").json()["data"]
    makers = [m for m in models if m["architecture"]["output_modalities"] == ["image"] and m["meta"]["period"] == m["meta"]["height"]]
    return next((m for m in makers if m["meta"]["classes"]), makers[0])


@pytest.fixture
def images(open_page):
    """images(hash="#images", **options of open_page) -> page with the studio open; the sheet that a first
    visit paints is done."""

    def open_(hash="#images", **options):
        page = open_page(hash, **options)
        expect(page.locator("#pad")).to_be_visible()
        if hash == "#images":
            painted(page)
        return page

    return open_


def api(page, path, body):
    reply = page.context.request.post(page.url.split("#")[0] + path, data=body, timeout=120_000)
    assert reply.ok, reply.text()
    return reply.json()


def urls_of(answer):
    return ["data:image/png;base64," + image["b64_json"] for image in answer["data"]]


def paint(page, n=N, seed=None, button="#paint"):
    page.fill("#image-n", str(n))
    page.fill("#image-seed", "" if seed is None else str(seed))
    page.evaluate("window.before = document.querySelector('.tiles canvas')?.sample")
    page.click(button)
    page.wait_for_function("() => document.querySelector('.tiles canvas')?.sample !== window.before")


def painted(page):
    """Waits for the end of the run; returns the values of every picture."""
    expect(page.locator(".easel .facts")).to_contain_text("pixels/s", timeout=120_000)
    drawn(page)
    return page.evaluate(VALUES, ".tiles canvas")


def stroke(page, points):
    """Draws with the mouse; points are in pixels of the pad."""
    page.locator("#pad").scroll_into_view_if_needed()
    box = page.locator("#pad").bounding_box()
    side = page.locator("#pad").evaluate("(c) => c.width")
    places = [(box["x"] + x * box["width"] / side, box["y"] + y * box["width"] / side) for x, y in points]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=3)
    page.mouse.up()


def fulfil_models(page, *names):
    """Lets the page see only the models of these tasks."""

    def answer(route):
        reply = route.fetch()
        models = reply.json()
        models["data"] = [m for m in models["data"] if m["meta"]["task"] in names]
        route.fulfill(response=reply, json=models)

    page.route("**/v1/models", answer)


# --- painting

# A stream whose first pieces come with some frames between them, however fast the server makes them and
# however slow the browser draws.
SLOW_STREAM = """() => {
    const real = window.fetch;
    const frames = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    window.fetch = async (url, options) => {
        window.fetch = real;
        const answer = await real(url, options);
        const reader = answer.body.getReader();
        let pieces = 0;
        const body = new ReadableStream({
            pull: async (c) => {
                const { value, done } = await reader.read();
                if (done) return c.close();
                for (let at = 0; at < value.length; at += 4000) {
                    c.enqueue(value.slice(at, at + 4000));
                    if (pieces++ < 8) await frames();
                }
            },
        });
        return new Response(body, { status: answer.status, headers: answer.headers });
    };
}"""


@pytest.fixture
def real_painter():
    """A small one is done before its first piece has left the server."""
    with running(ROOT / "weights") as address:
        yield address


def test_pictures_are_painted_live(images, real_painter):
    page = images(at=real_painter)
    page.evaluate(SLOW_STREAM)
    page.evaluate(
        """() => {
            window.frames_ = [];
            const canvas = document.querySelector('.tiles canvas');
            const text = (meter) => document.querySelector(`.${meter} .text`).textContent;
            (function watch() {
                const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
                let made = 0;
                for (let i = 3; i < data.length; i += 4) made += data[i] > 0;
                const last = frames_[frames_.length - 1];
                if (!last || last.made !== made) {
                    frames_.push({ made, state: text('state'), cache: text('cache'), text: text('made') });
                }
                requestAnimationFrame(watch);
            })();
        }"""
    )
    paint(page)
    values = painted(page)
    size = len(values[0])
    assert len(values) == N and all(v is not None for picture in values for v in picture)
    partial = [frame for frame in page.evaluate("frames_") if 0 < frame["made"] < size]
    counts = [frame["made"] for frame in partial]
    assert len(counts) >= 3 and counts == sorted(counts)
    kib = image_model_of(page)["meta"]["state_bytes"] // 1024
    assert {frame["state"] for frame in partial} == {f"State of one picture: {kib} KiB, the same at every pixel"}
    assert len({frame["cache"] for frame in partial}) >= 3  # other kinds of models have a growing cache
    assert len({frame["text"] for frame in partial}) >= 3
    expect(page.locator(".made .text")).to_have_text(f"{N * size:,} of {N * size:,} pixels")
    expect(page.locator("#live")).to_have_text(f"{N} pictures are painted.")


def test_finished_pictures_are_those_of_the_api(images):
    page = images()
    paint(page, seed=7)
    values = painted(page)
    answer = api(page, "v1/images/generations", {"prompt": "", "n": N, "seed": 7, "temperature": 1})
    urls = urls_of(answer)
    assert values == page.evaluate(DECODED, urls)
    expect(page.locator(".easel .facts")).to_contain_text("seed 7")
    download = page.locator("#download")
    assert download.get_attribute("href") == urls[0]
    assert download.get_attribute("download") == "linnet-7-1.png"
    page.click(".tiles li:nth-child(2)")
    expect(page.locator(".tiles li:nth-child(2)")).to_have_attribute("aria-selected", "true")
    assert download.get_attribute("href") == urls[1]
    with page.expect_download(timeout=120_000) as saved:
        page.click("#download")
    assert saved.value.path().read_bytes() == base64.b64decode(answer["data"][1]["b64_json"])


def test_surprise_map_of_the_chosen_picture(images):
    page = images()
    paint(page, seed=3)
    painted(page)
    bits = page.locator(".bits")
    urls = urls_of(api(page, "v1/images/generations", {"prompt": "", "n": N, "seed": 3, "temperature": 1}))
    for i in range(N):
        score = api(page, "v1/score", {"model": image_model_of(page)["id"], "image": urls[i]})
        if i > 0:
            page.keyboard.press("ArrowRight")
        else:
            page.focus(".tiles [aria-selected=true]")
        expect(page.locator(".tiles li").nth(i)).to_be_focused()
        expect(bits).to_have_text(f"{score['bits_per_dim']:.3f} bits/dim", timeout=60_000)
        expect(page.locator(".most")).to_have_text(f"{max(score['surprise']):.1f} bits")
        expected = page.evaluate(
            """async (surprise) => {
                const { heatColour } = await import('/picture.js');
                return surprise.map((b) => [...heatColour(b / Math.max(...surprise)), 255]).flat();
            }""",
            score["surprise"],
        )
        shown = page.evaluate(
            """() => { const heat = document.querySelector('#heat');
                return Array.from(heat.getContext('2d').getImageData(0, 0, heat.width, heat.height).data); }"""
        )
        assert sum(a != b for a, b in zip(shown, expected)) <= 8  # roundings of float32
        assert len(set(zip(*[iter(shown)] * 4))) > 10
        assert page.evaluate(VALUES, "#large") == page.evaluate(DECODED, [urls[i]])


def test_a_link_is_a_grid(images):
    page = images()
    paint(page, n=3, seed=None)
    values = painted(page)
    link = page.evaluate("location.hash")
    seed = re.fullmatch(r"#images&n=3&temperature=1&seed=(\d+)", link).group(1)
    expect(page.locator(".easel .facts")).to_contain_text(f"seed {seed}")
    assert page.input_value("#image-seed") == ""  # the next one is another
    other = images(link)
    assert painted(other) == values
    assert (other.input_value("#image-n"), other.input_value("#image-seed")) == ("3", seed)


# A stream whose second piece never comes, so that a fast server is not done before the test is. The first holds less
# than three of eight pictures.
HOLD_STREAM = """() => {
    const real = window.fetch;
    window.fetch = async (url, options) => {
        window.fetch = real;
        const answer = await real(url, options);
        const reader = answer.body.getReader();
        let first = true;
        const body = new ReadableStream({
            start: (c) => options.signal.addEventListener('abort',
                () => c.error(new DOMException('', 'AbortError'))),
            pull: async (c) => {
                if (!first) return new Promise(() => {});
                first = false;
                c.enqueue((await reader.read()).value.slice(0, 4000));
            },
        });
        return new Response(body, { status: answer.status, headers: answer.headers });
    };
}"""


def test_stop_keeps_what_is_painted(images):
    page = images()
    page.evaluate(HOLD_STREAM)
    paint(page, n=8)
    page.wait_for_function("() => /^[1-9]/.test(document.querySelector('.made .text').textContent)")
    page.click("#stop")
    expect(page.locator(".easel .facts")).to_have_text("stopped")
    expect(page.locator("#stop")).to_be_hidden()
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    first = page.evaluate(VALUES, ".tiles canvas")
    page.wait_for_timeout(500)  # check-tests: a span in which nothing may be painted
    assert page.evaluate(VALUES, ".tiles canvas") == first
    values = [v for picture in first for v in picture]
    assert any(v is not None for v in values) and any(v is None for v in values)
    expect(page.locator("#image-error")).to_be_hidden()
    paint(page)  # the page continues
    painted(page)


def test_a_first_visit_paints(open_page):
    page = open_page()
    page.click("#images-tab")
    assert all(v is not None for picture in painted(page) for v in picture)
    expect(page.locator(".tiles li")).to_have_count(16)
    first = page.evaluate("location.hash")
    page.click("#couplets-tab")
    page.click("#images-tab")
    drawn(page)
    assert page.evaluate("location.hash") == first  # once


# --- several models


def test_each_model_of_pictures_can_be_chosen(serve, open_page, tmp_path):
    """A colour model has a button next to that of grey digits, and a link keeps the choice."""
    image_model.write(tmp_path / "digits", 14, 13)
    image_model.write(tmp_path / "photos", 8, 6, channels=3)
    address = serve(tmp_path)
    page = open_page("#images&n=2&temperature=1&seed=3", at=address)
    expect(page.locator("#painters button")).to_have_text(["digits", "photos"])
    expect(page.locator("#painters [aria-pressed=true]")).to_have_text("digits")
    painted(page)
    with emptied(page, ".easel .facts"):
        page.click("#painters button:nth-of-type(2)")
    expect(page.locator(".easel .facts")).to_contain_text("pixels/s")
    expect(page.locator("#painters [aria-pressed=true]")).to_have_text("photos")
    assert page.locator("#pad").evaluate("(c) => [c.width, c.height]") == [8, 6]
    expect(page.locator(".bits")).to_contain_text("bits/dim")
    link = page.evaluate("location.hash")
    assert "model=photos" in link
    fresh = open_page(link, at=address)
    expect(fresh.locator("#painters [aria-pressed=true]")).to_have_text("photos")
    expect(fresh.locator(".bits")).to_contain_text("bits/dim")
    colours = "() => Array.from(document.querySelectorAll('.tiles canvas'), (c) => String(c.getContext('2d').getImageData(0, 0, 8, 6).data))"
    assert fresh.evaluate(colours) == page.evaluate(colours) and len(fresh.evaluate(colours)) == 2
    alone = open_page("#images", at=serve(tmp_path / "photos"))
    expect(alone.locator("#pad")).to_be_visible()
    expect(alone.locator("#painters")).to_be_hidden()


# --- tabs


def test_tabs_with_the_keyboard(open_page):
    page = open_page()
    couplets, images = (page.get_by_role("tab", name=name) for name in ("Couplets", "Pictures"))
    expect(couplets).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("tabpanel")).to_have_attribute("id", "couplets")
    expect(page.get_by_role("tab", name="Dictation")).to_be_visible()  # the server has said what it serves
    couplets.focus()
    page.keyboard.press("ArrowRight")
    expect(images).to_be_focused()
    expect(images).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("tabpanel")).to_have_attribute("id", "images")
    expect(page).to_have_url(re.compile("#images(&|$)"))  # and of the painting, once it exists
    expect(page).to_have_title("Linnet · Pictures")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Poems")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Dictation")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="How it works")).to_be_focused()
    expect(page.get_by_role("tabpanel")).to_have_attribute("id", "how")
    expect(page).to_have_url(re.compile("#how"))
    page.keyboard.press("Home")
    expect(couplets).to_be_focused()
    expect(page.locator("#upper")).to_be_visible()
    expect(page.locator("#pad")).to_be_hidden()
    page.click("#images-tab")
    expect(page.locator("#clear")).to_be_visible()
    page.keyboard.press("Tab")
    reached = set()
    for _ in range(40):  # with a button for each class
        reached.add(page.evaluate("document.activeElement.id"))
        page.keyboard.press("Tab")
    assert {"image-n", "image-temperature", "image-seed", "paint", "kept", "complete", "clear"} <= reached


def test_the_first_sheet_is_of_one_class(serve, open_page, tmp_path):
    """Digits of any class look like scribbles to who has asked for none."""
    image_model.write(tmp_path / "digits", 14, 14, classes=list("0123456789"))
    page = open_page(at=serve(tmp_path))
    page.wait_for_function("() => location.hash.includes('class=')")
    pressed = page.locator("#wishes [aria-pressed=true]")
    expect(pressed).to_have_text(re.compile(r"^\d$"))
    assert page.url.endswith(f"class={pressed.inner_text()}")
    page.locator("#wishes button").last.click()  # anything
    page.wait_for_function("() => !location.hash.includes('class=') && location.hash.includes('seed=')")


def test_only_what_is_served_is_offered(open_page):
    page = open_page()
    fulfil_models(page, "couplet")
    page.reload()
    expect(page.locator("#images-tab")).to_be_hidden()
    expect(page.locator("#how-tab")).to_be_visible()
    expect(page.locator("#upper")).to_be_visible()
    page.goto(page.url.split("#")[0] + "#images")
    expect(page.locator("#image-error")).to_have_text("This server has no image model.")
    expect(page.locator("#paint")).to_be_disabled()
    expect(page.locator("#images-tab")).to_be_visible()


def test_images_come_first_where_there_is_nothing_else(open_page):
    page = open_page()
    fulfil_models(page, "image")
    page.reload()
    expect(page.locator("#pad")).to_be_visible()
    expect(page.locator("#upper")).to_be_hidden()
    expect(page.locator("#couplets-tab")).to_be_hidden()
    page.click("#how-tab")
    expect(page.locator("#lab-error")).to_contain_text("no couplet model")
    expect(page.locator("#how .equations")).to_be_visible()


def test_a_server_that_still_loads_is_asked_again(open_page):
    page = open_page()
    page.route("**/v1/models", lambda route: route.fulfill(json={"object": "list", "data": []}))
    page.reload()
    page.click("#images-tab")  # the first visit asks
    expect(page.locator("#image-error")).to_contain_text("Try again")
    page.click("#paint")
    expect(page.locator("#image-error")).to_contain_text("Try again")
    page.unroute("**/v1/models")
    paint(page)
    painted(page)
    expect(page.locator("#image-error")).to_be_hidden()


def test_chinese(open_page):
    page = open_page("#images", locale="zh-CN")
    expect(page.locator(".kept-rows")).to_have_text("保留上面 14 行")
    expect(page.locator(".easel .state .text")).to_contain_text("KiB")
    assert page.title() == "Linnet · 图画"


def test_the_claim_is_of_the_chosen_model(images):
    """Of softmax attention it would be false, and so would be a comparison with softmax."""
    page = images()
    model = {name: page.locator("#painters button", has_text=re.compile(f"^{name}$")) for name in ("mnist", "mnist-softmax")}
    expect(page.locator(".claim p")).to_contain_text("KiB here")
    expect(page.locator(".easel .cache")).to_be_visible()
    model["mnist-softmax"].click()
    expect(page.locator(".claim p")).to_be_hidden()
    expect(page.locator(".easel .state .text")).to_contain_text("at the last pixel")
    expect(page.locator(".easel .cache")).to_be_hidden()
    page.click("#how-tab")
    expect(page.locator(".claim p")).to_contain_text("KiB here")
    page.click("#images-tab")
    expect(page.locator(".claim p")).to_be_hidden()
    model["mnist"].click()
    expect(page.locator(".claim p")).to_be_visible()
    expect(page.locator(".easel .cache")).to_be_visible()


# --- errors


def test_refused_fields_are_named(images):
    page = images(allow=REFUSED)
    page.fill("#image-temperature", "-1")
    page.click("#paint")
    expect(page.locator("#image-error")).to_contain_text("Temperature was refused")
    page.fill("#image-temperature", "1")
    page.fill("#image-n", "65")
    page.click("#paint")
    expect(page.locator("#image-error")).to_contain_text("64")
    paint(page)  # the page continues
    expect(page.locator("#image-error")).to_be_hidden()
    painted(page)


def test_an_error_inside_the_stream_is_told(images):
    page = images()
    values = {"type": "image_generation.values", "index": 0, "start": 0, "values": [255] * 30}
    error = {"error": {"message": "the device is gone", "type": "", "param": None, "code": ""}}
    body = f"event: x\ndata: {json.dumps(values)}\n\nevent: error\ndata: {json.dumps(error)}\n\n"
    page.route("**/v1/images/generations", lambda route: route.fulfill(
        status=200, headers={"Content-Type": "text/event-stream"}, body=body))
    paint(page, n=1)
    expect(page.locator("#image-error")).to_have_text("the device is gone")
    shown = page.evaluate(VALUES, ".tiles canvas")[0]
    assert shown[:31] == [255] * 30 + [None]


def test_a_stream_that_ends_early_is_told(images):
    page = images()
    page.route("**/v1/images/generations", lambda route: route.fulfill(
        status=200, headers={"Content-Type": "text/event-stream"}, body=""))
    paint(page)
    expect(page.locator("#image-error")).to_contain_text("cannot be reached")


def test_a_failed_map_is_told_and_can_be_asked_for_again(images):
    page = images(allow="ERR_FAILED")
    page.route("**/v1/score", lambda route: route.abort())
    paint(page)
    painted(page)
    expect(page.locator(".chosen .error")).to_contain_text("cannot be reached")
    page.unroute("**/v1/score")
    page.click(".tiles li:first-child")
    expect(page.locator(".bits")).to_contain_text("bits/dim", timeout=60_000)
    expect(page.locator(".chosen .error")).to_be_hidden()


# --- the pictures of the documentation


def half_painted(page):
    page.wait_for_function(
        """() => {
            const [made, all] = document.querySelector('.made .text').textContent.match(/[\\d,]+/g)
                .map((n) => Number(n.replace(',', '')));
            return all > 0 && made > 0.55 * all;
        }""",
        timeout=120_000,
    )
    drawn(page)


def test_picture(images, screenshots):
    view = {"width": 1280, "height": 1040}
    page = images("#images&n=16&seed=3", viewport=view)
    half_painted(page)
    page.screenshot(path=screenshots / "images-painting.png")
    painted(page)
    stroke(page, [(9, 8), (12, 5), (16, 5), (19, 8), (18, 11), (15, 14)])
    with emptied(page, ".easel .facts"):
        paint(page, n=16, seed=4, button="#complete")
    painted(page)
    expect(page.locator(".bits")).not_to_be_empty(timeout=60_000)
    page.evaluate("document.activeElement.blur()")
    page.mouse.move(0, 0)
    page.screenshot(path=screenshots / "images.png")
    phone = images("#images&n=16&seed=3", locale="zh-CN", device_scale_factor=2, **PHONE)
    expect(phone.locator(".bits")).not_to_be_empty(timeout=120_000)
    phone.screenshot(path=screenshots / "images-phone.png")
    assert (screenshots / "images.png").stat().st_size > 20_000
