""""How it works": the drawings show the numbers of the server's states."""

import re

import pytest
from playwright.sync_api import expect

from watching import deleted, drawn

LINE = "海上明月"
WALKED = "(n) => document.querySelectorAll('.steps li').length === n && location.hash.includes('step=')"
CALM = {"reduced_motion": "reduce"}


@pytest.fixture
def walk(open_page):
    """walk(line) -> (page, ids of the states made), at the last step."""

    def open_(line=LINE, **options):
        page = open_page("#couplets", **{**CALM, **options})
        ids = []

        def note(request):
            found = re.search(r"/v1/states/([\w-]+)/\w+\?layer=", request.url)
            if found and found.group(1) not in ids:
                ids.append(found.group(1))

        page.on("request", note)
        page.evaluate("(line) => { location.hash = `#how&line=${line}&seed=5&step=99`; }", line)
        page.wait_for_function(WALKED, arg=len(line) + 2)
        return page, ids

    return open_


def painted(page, selector):
    """The bytes of a canvas."""
    return page.locator(selector).evaluate(
        "(c) => Array.from(c.getContext('2d').getImageData(0, 0, c.width, c.height).data)")


def expected(page, rows, most):
    return page.evaluate(
        """async ([rows, most]) => {
            const { paintNumbers } = await import('/memory.js');
            const canvas = document.createElement('canvas');
            paintNumbers(canvas, rows, most);
            return Array.from(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data);
        }""",
        [rows, most],
    )


def look(page, state, layer=0, head=0):
    url = page.url.split("#")[0] + f"v1/states/{state}/inspect?layer={layer}&head={head}"
    reply = page.context.request.get(url)
    assert reply.ok, reply.text()
    return reply.json()


def test_what_is_drawn_stands_in_the_states(walk):
    page, ids = walk()
    assert len(ids) == len(LINE) + 1
    inside = [look(page, state) for state in ids]
    most = max(abs(x) for one in inside for row in one["s"] for x in row)
    for step in (len(ids), 1, 3):
        page.click(f".steps li:nth-child({step + 1}) button")
        drawn(page)
        now = inside[step - 1]
        assert painted(page, ".after .square") == expected(page, now["s"], most)
        assert painted(page, ".after .key") == expected(page, [[z] for z in now["z"]], max(inside[-1]["z"]))
        if step > 1:
            assert painted(page, ".before .square") == expected(page, inside[step - 2]["s"], most)
    page.click(".steps li:first-child button")
    drawn(page)
    assert painted(page, ".after .square") == expected(page, [[0] * 32] * 32, 1)
    expect(page.locator(".told")).to_contain_text("Equations 16 and 17")


def test_each_character_is_one_product(walk):
    page, _ = walk("一盏青灯听夜雨")
    for step in range(2, 9):
        page.click(f".steps li:nth-child({step + 1}) button")
        expect(page.locator(".shares li")).to_have_count(step)
        error = re.search(r"to within (\S+)\.$", page.locator(".told").inner_text())
        assert float(error.group(1)) < 1e-4  # equations 18 and 19, as the server computed them
        shares = [float(re.search(r"([\d.]+) %", text).group(1)) for text in page.locator(".shares li").all_inner_texts()]
        assert len(shares) == step and sum(shares) == pytest.approx(100, abs=0.1 * step)


def test_the_toy_is_stepped_through(open_page):
    """Left a card per character, right twelve numbers, and a question: the answer is s over z."""
    page = open_page("#how", **CALM)
    numbers = page.locator("#toy tbody td")
    expect(page.locator("#toy .cards li")).to_have_count(0)
    drawn(page)
    play, told, square = (page.locator(f"#toy {part}").bounding_box()["y"] for part in (".play", ".says", "table"))
    assert play < told < square and square - play < 600, "a phone shows all that the button moves"
    for cards in range(1, 6):
        page.click("#toy .next")
        expect(page.locator("#toy .cards li")).to_have_count(cards)
        expect(numbers).to_have_count(12)
        expect(page.locator("#toy figcaption").first).to_contain_text(f"{cards} cards, {6 * cards} numbers")
    expect(page.locator("#toy .cards li").first).to_have_text("山 (1 0 0) → (2 0 1)")
    expect(numbers).to_have_text(list("602204321322"))
    page.click("#toy .next")
    expect(page.locator("#toy .asked span")).to_have_text(["q = (1 0 0)", "q·s = (6 0 2)", "q·z = 2", "(6 0 2) / 2 = (3 0 1)"])
    page.click("#toy .stops li:last-child button")
    expect(page.locator("#toy .asked span").last).to_have_text("(0 4 3) / 2 = (0 2 1.5)")
    expect(page.locator("#toy .next")).to_be_disabled()
    page.click("#toy .stops li:first-child button")
    expect(page.locator("#toy .cards li")).to_have_count(1)
    expect(page.locator("#toy .asked")).to_be_empty()


def test_the_map_shows_which_head_it_is(walk):
    page, _ = walk()
    expect(page.locator(".head-map span")).to_have_count(64)
    expect(page.locator(".of-heads")).to_have_text("this is 1 of 64 heads")
    with page.expect_response(lambda answer: "layer=2&head=5" in answer.url):
        page.click(".head-map span:nth-child(22)")
    expect(page.locator(".head-map")).to_have_attribute("aria-label", "head 6 of layer 3")
    expect(page.locator("#lab-layer")).to_have_value("2")
    expect(page.locator("#lab-head")).to_have_value("5")


def test_the_answer_is_the_one_asked_for(walk):
    page, _ = walk()
    reply = page.context.request.post(page.url.split("#")[0] + "v1/completions",
                                      data={"model": "couplet", "prompt": LINE, "seed": 5, "rank": False})
    written = "".join(page.locator(".steps button").all_inner_texts()[2:])
    assert written == reply.json()["choices"][0]["text"]


def test_another_head_is_looked_into(walk):
    page, ids = walk()
    with page.expect_response(lambda answer: "layer=3" in answer.url):
        page.select_option("#lab-layer", index=3)
    page.select_option("#lab-head", index=6)
    inside = [look(page, state, 3, 6) for state in ids]
    most = max(abs(x) for one in inside for row in one["s"] for x in row)
    page.wait_for_function("() => location.hash.includes('layer=3&head=6')")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert painted(page, ".after .square") == expected(page, inside[-1]["s"], most)


def test_the_bytes_are_told(walk):
    page, _ = walk()
    expect(page.locator(".bench > .facts")).to_have_text(
        "position 9 · state 264 KiB, measured · softmax cache 144 KiB, by formula")
    page.focus("#position")
    page.keyboard.press("End")
    expect(page.locator("#positions .cache .text")).to_contain_text("formula")
    expect(page.locator("#positions .slider .text")).to_have_text("1,048,576 positions")
    expect(page.locator("#positions .state .text")).to_have_text("s and z: 264 KiB")
    page.keyboard.press("Home")
    expect(page.locator("#positions .cache .text")).to_contain_text("16 KiB")


def test_a_fork_has_one_past(walk):
    page, _ = walk("一盏青灯听夜雨")
    page.click(".steps li:nth-child(4) button")
    past = "".join(page.locator(".steps button").all_inner_texts()[2:4])
    page.click("#lab-fork")
    expect(page.locator(".forks")).to_contain_text("3 futures")
    lines = page.locator(".forks").inner_text().split(": ")[1].split(" · ")
    assert len(lines) == 3 and all(line.startswith(past) and len(line) == 7 for line in lines)
    assert lines[0] == "".join(page.locator(".steps button").all_inner_texts()[2:])  # the same sample
    assert len(set(lines)) > 1


def test_states_are_not_left_behind(walk):
    page, ids = walk()
    first = list(ids)
    page.fill("#lab-line", "春 风")
    gone = set()

    def all_gone(answer):
        if answer.request.method == "DELETE":
            gone.add(answer.url.rsplit("/", 1)[1])
        return gone == set(first)

    with page.expect_response(all_gone):
        page.click("#lab-go")
    page.wait_for_function(WALKED, arg=4)
    for state in first:
        reply = page.context.request.get(page.url.split("#")[0] + f"v1/states/{state}")
        assert reply.status == 404


@pytest.fixture
def hold(open_page):
    """A page whose walk stands at its second state, with the held request and the ids of the states so far."""
    page, ids, held = open_page("#couplets", **CALM, allow="404|503|Failed to load"), [], []

    def take(route):
        ids.append(re.search(r"/v1/states/([\w-]+)/", route.request.url)[1])
        if len(ids) == 2:
            held.append(route)
        else:
            route.continue_()

    page.route("**/inspect?layer=0&head=0", take)
    page.evaluate("(line) => { location.hash = `#how&line=${line}&seed=5&step=99`; }", LINE)
    while not held:
        drawn(page)
    return page, held[0], ids


def test_a_head_is_chosen_during_the_walk(hold):
    """All steps show it: also the one whose inside was asked for before."""
    page, held, ids = hold
    page.select_option("#lab-layer", index=3)
    page.wait_for_function("() => location.hash.includes('layer=3')")
    with page.expect_response(lambda answer: f"{ids[1]}/inspect?layer=3" in answer.url):
        held.continue_()
    page.wait_for_function(WALKED, arg=6)
    page.click(".steps li:nth-child(3) button")
    names = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    states = list(dict.fromkeys(re.findall(r"/v1/states/([\w-]+)/inspect", " ".join(names))))
    inside = [look(page, state, 3, 0) for state in states]
    assert len(inside) == 5
    most = max(abs(x) for one in inside for row in one["s"] for x in row)
    drawn(page)
    drawn(page)
    assert painted(page, ".after .square") == expected(page, inside[1]["s"], most)


def test_a_head_that_cannot_be_seen_is_not_named(walk):
    page, _ = walk(allow="503")
    page.route("**/inspect?layer=3*", lambda route: route.fulfill(status=503, body="{}"))
    page.select_option("#lab-layer", index=3)
    expect(page.locator("#lab-error")).to_contain_text("Try again")
    expect(page.locator("#lab-layer")).to_have_value("0")
    assert "layer=0" in page.evaluate("location.hash")
    page.unroute_all()
    page.select_option("#lab-layer", index=3)
    expect(page.locator("#lab-error")).to_be_empty()
    expect(page.locator("#lab-layer")).to_have_value("3")


def test_a_walk_that_is_left_deletes_its_states(hold):
    page, held, ids = hold
    page.fill("#lab-line", "春风")
    page.click("#lab-go")
    held.continue_()
    page.wait_for_function(WALKED, arg=4)
    deleted(page, *ids[:2])


def test_futures_stay_with_their_line(walk):
    """Futures of another line are dropped."""
    page, _ = walk()
    page.click(".steps li:nth-child(4) button")
    held = []
    page.route("**/fork", lambda route: held.append((route, route.fetch())))
    page.click("#lab-fork")
    while not held:
        drawn(page)
    page.fill("#lab-line", "一盏青灯")
    page.click("#lab-go")
    expect(page.locator(".steps li:nth-child(2)")).to_have_text("一盏青灯")
    page.wait_for_function(WALKED, arg=6)
    page.click(".steps li:nth-child(4) button")
    route, answer = held[0]
    route.fulfill(response=answer)
    copies = [copy["id"] for copy in answer.json()["data"]]
    deleted(page, *copies)  # at the end
    drawn(page)
    expect(page.locator(".forks")).to_be_empty()


def test_it_plays_by_itself_when_it_is_seen(open_page):
    """It stands below the toy, and would be over before a visitor comes to it."""
    page = open_page("#how", viewport={"width": 1280, "height": 720}, reduced_motion="no-preference")
    expect(page.locator(".steps li")).to_have_count(6)
    expect(page.locator(".steps [aria-current]")).to_have_text("empty")
    page.evaluate(
        """() => {
            window.shown = new Set();
            const note = () => shown.add(document.querySelector('.steps [aria-current]')?.textContent);
            new MutationObserver(note).observe(document.querySelector('#lab'), { subtree: true, attributes: true });
        }"""
    )
    assert not page.url.endswith("step=5")
    page.locator("#lab-form").scroll_into_view_if_needed()
    page.wait_for_function("() => location.hash.includes('step=5')")
    assert page.evaluate("shown.size") >= 4


def test_keys_are_enough(open_page):
    page = open_page("#how", **CALM)
    page.wait_for_function(WALKED, arg=6)
    page.focus("#lab-line")
    page.keyboard.press("Tab")
    reached = []
    for _ in range(24):
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
        page.keyboard.press("Tab")
    assert {"lab-go", "lab-back", "empty", LINE, "lab-layer", "lab-head", "lab-copy"} <= set(reached)
    page.focus("#lab-back")
    page.keyboard.press("Enter")
    expect(page.locator(".steps li:nth-child(5) button")).to_have_attribute("aria-current", "step")


def test_errors_are_in_the_visitors_language(open_page):
    page = open_page("#how", allow=r"status of 4\d\d", locale="zh-CN", **CALM)
    page.wait_for_function(WALKED, arg=6)
    page.fill("#lab-line", "")
    page.click("#lab-go")
    expect(page.locator("#lab-error")).to_have_text("先写一行字吧。")
    expect(page.locator(".bench")).to_be_hidden()


def test_another_kind_of_model_is_named(open_page):
    page = open_page()
    rows = {"object": "state.rows", "n_kept": 1, "positions": [0], "keys": [[1.0]], "values": [[1.0]]}
    page.route("**/v1/states/*/inspect?*", lambda route: route.fulfill(json=rows))
    page.click("#how-tab")
    expect(page.locator("#lab-error")).to_contain_text("no linear transformer")
    expect(page.locator("#how .equations")).to_be_visible()
    expect(page.locator(".bench")).to_be_hidden()


def test_picture(open_page, screenshots):
    """The pictures of docs/linear-attention.md."""
    page = open_page(f"#how&line={LINE}&seed=1&step=4", viewport={"width": 1280, "height": 900}, device_scale_factor=2)
    page.wait_for_function("() => document.querySelectorAll('.steps li').length === 6 && location.hash.includes('step=4')")
    page.mouse.move(0, 0)
    page.locator(".bench").screenshot(path=screenshots / "how-steps.png")
    page.locator(".crossing svg").screenshot(path=screenshots / "how-crossing.png")
    assert (screenshots / "how-steps.png").stat().st_size > 20_000
