"""The strip: one sequence in pieces, each from the state before; paused, gone back in, forked, shared, saved."""

import re

import pytest
from playwright.sync_api import expect

import image_model
from test_images import DECODED, REFUSED, VALUES, api, urls_of
from test_share import assert_alike, saved
from watching import drawn

WHOLE = "(n) => location.hash.endsWith(`digits=${n}`) && document.querySelectorAll('#digits li').length === n"
VIEW = {"viewport": {"width": 1280, "height": 1000}, "reduced_motion": "reduce"}


def rest(page, n):
    """The strip has n digits, and none is under way."""
    page.wait_for_function(WHOLE, arg=n, timeout=120_000)
    expect(page.locator("#strip-go")).to_have_text("Go on")
    drawn(page)
    return page.evaluate(VALUES, "#digits canvas")


def strip_model(page):
    models = page.context.request.get(page.url.split("#")[0] + "v1/models").json()["data"]
    return next(m for m in models if m["id"] == "strip")


def test_a_strip_is_one_sequence(open_page):
    page = open_page("#strip&turns=0.5&digits=3")
    digits = rest(page, 3)
    meta = strip_model(page)["meta"]
    size = meta["width"] * meta["period"]
    answer = api(page, "v1/images/generations",
                 {"model": "strip", "prompt": "", "seed": 5, "temperature": 0.8, "max_tokens": 3 * size})
    (whole,) = page.evaluate(DECODED, urls_of(answer))
    assert [v for digit in digits for v in digit] == whole[: 3 * size]
    assert len({tuple(digit) for digit in digits}) == 3


def classes_of(request):
    """Of a request for a digit; those of the tab of pictures, which is open first, keep no state."""
    return [request.post_data_json["class"]] if request.url.endswith("/generations") and "return_state" in request.post_data_json else []


def test_each_digit_asks_for_a_class(serve, open_page, tmp_path):
    """The seed and the digit's place decide it, so that a link paints the same digits."""
    image_model.write(tmp_path / "digits", 14, 13, classes=[f"{i} name" for i in range(10)])
    (tmp_path / "strip").mkdir()
    (tmp_path / "strip/config.json").write_text('{"base": "../digits", "image": {"height": 130, "period": 13}}')
    address = serve(tmp_path)
    asked = []
    for _ in range(2):
        page = open_page(at=address)
        page.on("request", lambda sent: asked.extend(classes_of(sent)))
        page.goto(f"{address}/#strip&turns=0.5&digits=5")
        rest(page, 5)
    assert len(asked) == 10 and asked[:5] == asked[5:] and len(set(asked)) > 1 and set(asked) <= set(range(10))
    names = page.locator("#digits li").evaluate_all("(all) => all.map((tile) => tile.getAttribute('aria-label'))")
    assert names == [f"Digit {i + 1}, asked for {wish}" for i, wish in enumerate(asked[:5])]
    expect(page.locator("#digits li")).to_have_text([str(wish) for wish in asked[:5]])
    page.click("#strip-fork")
    expect(page.locator(".ways button:enabled")).to_have_count(3)
    assert all(re.fullmatch(r"\d", text.strip()) for text in page.locator(".ways button").all_inner_texts())


def test_the_meter_of_the_state_stands_still(open_page):
    page = open_page("#strip&turns=0.5&digits=1")
    seen = set()
    for n in (1, 2, 4):
        page.goto(page.url.split("#")[0] + f"#strip&turns=0.5&digits={n}")
        rest(page, n)
        kib = strip_model(page)["meta"]["state_bytes"] // 1024
        expect(page.locator("#strip .state .text")).to_have_text(f"State: {kib} KiB, measured after every digit")
        seen.add(page.locator("#strip .cache .text").inner_text())
        expect(page.locator("#strip .made .text")).to_contain_text(f"{n * 784:,} pixels, one sequence (at most 401,408")
    assert len(seen) == 3  # the formula does not


# The page itself pauses at the fourth digit, so that no strip is over before. Returns the button's text.
GO_AND_PAUSE = """() => new Promise((done) => {
    const [button, list] = ['#strip-go', '#digits'].map((id) => document.querySelector(id));
    new MutationObserver((_, observer) => {
        if (list.childElementCount < 4) return;
        observer.disconnect();
        const said = button.textContent;
        button.click();
        done(said);
    }).observe(list, { childList: true });
    button.click();
})"""


def test_it_pauses_and_goes_on(open_page):
    page = open_page("#strip&turns=0.5&digits=2")
    first = rest(page, 2)
    assert page.evaluate(GO_AND_PAUSE) == "Pause"
    expect(page.locator("#strip-go")).to_have_text("Go on")
    n = page.locator("#digits li").count()
    digits = rest(page, n)
    assert digits[:2] == first and n >= 3
    assert all(v is not None for digit in digits for v in digit)
    fresh = open_page(f"#strip&turns=0.5&digits={n}")
    assert rest(fresh, n) == digits


def test_what_if(open_page):
    """From a digit in the middle: three others, one is taken, and the link is the new strip."""
    page = open_page("#strip&turns=0.5&digits=4", **VIEW)
    before = rest(page, 4)
    page.focus("#strip-back")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#strip .slider .text")).to_contain_text("At digit 2 of 4")
    expect(page.locator("#digits .behind")).to_have_count(2)
    page.click("#strip-fork")
    expect(page.locator(".ways button:enabled")).to_have_count(3)
    ways = page.evaluate(VALUES, ".ways canvas")
    assert len({tuple(way) for way in ways}) == 3 and before[2] not in ways
    page.click(".ways li:nth-child(2) button")
    digits = rest(page, 3)
    assert digits == [*before[:2], ways[1]]
    link = page.evaluate("location.hash")
    assert re.fullmatch(r"#strip&turns=0\.5_2\.\d+&digits=3", link)
    page.click("#strip-go")
    page.wait_for_function("() => document.querySelectorAll('#digits li').length >= 5")
    page.click("#strip-go")
    fresh = open_page(link, **VIEW)
    assert rest(fresh, 3) == digits


def test_what_if_after_a_failure(open_page):
    """The digit that was not finished is gone, and the ways go on from the one before."""
    page = open_page(allow="503")

    def refuse(route):
        if "state" in route.request.post_data_json:
            route.fulfill(status=503, body="{}")
        else:
            route.continue_()

    page.route("**/generations", refuse)
    page.evaluate("location.hash = '#strip&turns=0.5&digits=3'")
    expect(page.locator("#strip-error")).to_contain_text("Try again")
    page.unroute_all()
    page.click("#strip-fork")
    expect(page.locator(".ways button:enabled")).to_have_count(3, timeout=120_000)
    expect(page.locator("#strip-error")).to_be_empty()
    expect(page.locator("#strip .ways h3")).to_contain_text("After digit 1,")


def test_back_keeps_what_was_painted_meanwhile(open_page):
    page = open_page("#strip&turns=0.5&digits=2")
    rest(page, 2)
    answered, asked = [], []
    page.on("requestfinished", lambda request: answered.append(request) if "generations" in request.url else None)
    page.click("#strip-go")
    page.click("#how-tab")
    while len(answered) < 3:
        drawn(page)
    page.on("request", lambda request: asked.append(request.post_data_json) if "generations" in request.url else None)
    page.go_back()
    expect(page.locator("#strip-go")).to_have_text("Pause")
    page.wait_for_function("(n) => document.querySelectorAll('#digits li').length > n", arg=5)
    page.click("#strip-go")
    expect(page.locator("#strip-go")).to_have_text("Go on")
    drawn(page)
    digits = page.locator("#digits li").count()
    assert digits >= 5 and all("state" in body for body in asked), "no digit is painted again"
    rest(page, digits)


def test_a_link_looks_the_same(open_page):
    link = "#strip&turns=0.9_1.4&digits=3"
    page, fresh = open_page(link, **VIEW), open_page(link, **VIEW)
    rest(page, 3)
    rest(fresh, 3)
    assert_alike(page, fresh, "#digits", "#strip .meters")


def test_keys_are_enough(open_page):
    page = open_page("#strip&turns=0.5&digits=3")
    rest(page, 3)
    page.focus("#digits [aria-selected=true]")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#digits li:nth-child(2)")).to_be_focused()
    expect(page.locator("#digits li:nth-child(2)")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Home")
    expect(page.locator("#strip .slider .text")).to_contain_text("At digit 1 of 3")


def test_it_is_saved(open_page):
    page = open_page("#strip&turns=0.5&digits=3", **VIEW)
    rest(page, 3)
    name, picture = saved(page, "#strip-save")
    assert name == "linnet-strip.png" and picture["width"] == 2 * (3 * 30 + 2)


@pytest.mark.parametrize("turns", ["x", "1.5", "0.5_0.6", "0.5_3.7_2.8", "0.5_"])
def test_a_damaged_link_is_told(open_page, turns):
    page = open_page(f"#strip&turns={turns}&digits=3")
    expect(page.locator("#strip-error")).to_have_text("The link cannot be read.")


def test_states_that_are_cut_off_are_forgotten(open_page):
    page = open_page("#strip&turns=0.5&digits=3")
    rest(page, 3)
    gone = []
    page.on("request", lambda sent: gone.append(sent.url) if sent.method == "DELETE" else None)
    page.click("#strip-new")
    page.wait_for_function("() => !location.hash.includes('turns=0.5&')")
    assert len(gone) == 3


def test_a_server_without_a_strip_says_so(serve, open_page, tmp_path):
    image_model.write(tmp_path / "models/painter", 28, 28)
    server = serve(tmp_path / "models")
    strip, race, page = (open_page(hash, at=server) for hash in ("#strip", "#race", ""))
    expect(strip.locator("#strip-error")).to_contain_text("no model of a strip")
    expect(race.locator("#race-error")).to_contain_text("no models that can race")
    expect(page.locator("#pad")).to_be_visible()
    expect(page.locator("#strip-tab")).to_be_hidden()
    expect(page.locator("#race-tab")).to_be_hidden()


def test_a_refusal_is_told(open_page):
    page = open_page("#strip&turns=0.5&digits=1", allow=REFUSED)
    rest(page, 1)
    page.route("**/v1/images/generations", lambda route: route.fulfill(
        status=429, headers={"Retry-After": "7"}, body='{"error": {"message": "full", "param": null}}'))
    page.click("#strip-go")
    expect(page.locator("#strip-error")).to_contain_text("7 s")
    page.unroute("**/v1/images/generations")
    page.click("#strip-go")
    page.wait_for_function("() => document.querySelectorAll('#digits li').length >= 3")
    expect(page.locator("#strip-error")).to_be_hidden()


def test_picture(open_page, screenshots):
    """docs/images/strip.png"""
    page = open_page("#strip&turns=0.3&digits=60", viewport={"width": 1280, "height": 1180})
    rest(page, 60)
    page.click("#strip-fork")
    expect(page.locator(".ways button:enabled")).to_have_count(3)
    page.evaluate("document.activeElement.blur()")
    page.screenshot(path=screenshots / "strip.png", animations="disabled")
    assert (screenshots / "strip.png").stat().st_size > 20_000
