"""The race: models of one shape in several kinds, in turns, from their own states; the page shows the measured
times."""

import json
import re

import pytest
from playwright.sync_api import expect

import image_model
from conftest import ROOT, running
from watching import drawn

LANES = "import('/race.js').then(({ race }) => race.lanes())"
SPOKEN = re.compile(r"linear: [\d.]+ ms at position 1,820; softmax with cache: .*; sliding_window: ")


def tokens(page):
    drawn(page)
    return [int(text.replace(",", "")) for text in page.locator(".lanes td:nth-child(2)").all_inner_texts()]


def expect_tokens(page, number):
    """In every lane; the table is drawn in a frame after the event."""
    expect(page.locator(".lanes td:nth-child(2)")).to_have_text([f"{number:,}"] * 3)


def start(page):
    expect(page.locator(".lanes tbody tr").first).to_be_visible()
    page.click("#race-go")
    expect(page.locator("#race-go")).not_to_have_text("Start")  # a short race may be over by now


def stop(page):
    """Waits until the running turn is over; returns the measured times."""
    page.click("#race-go")
    expect(page.locator("#race-go")).to_have_text("Go on")
    return page.evaluate(LANES)


@pytest.fixture
def small(tmp_path):
    """A server of three kinds of one shape, whose race is over in no time."""
    models = tmp_path / "models"
    kinds = {"a": image_model.LINEAR, "b": {"kind": "softmax"}, "c": {"kind": "sliding_window", "window": 64}}
    image_model.write(models / "base", 14, 13)
    for name, attention in kinds.items():
        (models / name).mkdir()
        keys = {"base": "../base", "image": {"height": 13 * 10, "period": 13}, "attention": attention}
        (models / name / "config.json").write_text(json.dumps(keys))
    with running(models) as address:
        yield address


def test_every_kind_has_its_lane_and_its_measures(small, open_page):
    page = open_page("#race", at=small)
    sent = []
    page.on("response", lambda answer: sent.append(answer.json()) if answer.url.endswith("/generations") else None)
    start(page)
    expect(page.locator("#live")).to_have_text("The race is over.", timeout=120_000)
    names = page.locator(".lanes tbody th").all_inner_texts()
    assert names == ["linear", "softmax with cache", "sliding_window"]
    expect_tokens(page, 14 * 130)
    lanes = page.evaluate(LANES)
    for lane, row in zip(lanes, page.locator(".lanes tbody tr").all()):
        answers = [a for a in sent if a["model"] == lane["id"]]
        assert [p["bytes"] for p in lane["points"]] == [a["states"][0]["memory_bytes"] for a in answers]
        assert [p["to"] for p in lane["points"]] == [a["states"][0]["position"] for a in answers]
        for point, answer in zip(lane["points"], answers):
            t = answer["timings"]
            assert point["ms"] > 0 and t.get("draft_n", 0) == 0, "every token has a step of its own"
            if t["predicted_n"] > 1:
                assert point["ms"] == pytest.approx((t["predicted_ms"] - t["state_ms"]) / (t["predicted_n"] - 1))
        last = lane["points"][-1]
        cells = row.locator("td").all_inner_texts()
        assert cells[1] == f"{last['ms']:.3f}"
        assert cells[3].replace(",", "") == str((1 << 30) // last["bytes"])
    memory = [[p["bytes"] for p in lane["points"]] for lane in lanes]
    assert len(set(memory[0])) == 1 and memory[1] == sorted(memory[1]) and memory[1][-1] > 2 * memory[1][0]
    assert page.locator(".chart polyline").count() == 6
    expect(page.locator(".chart svg").first).to_have_attribute("aria-label", SPOKEN)
    expect(page.locator("#race-go")).to_be_disabled()
    assert_papers(page, lanes)
    linear, softmax = (lane["points"][-1] for lane in lanes[:2])
    seconds = ["{:g}".format(float("{:.2g}".format(lane["ms"] / 1000))) for lane in lanes[:2]]
    times = f"{softmax['bytes'] / linear['bytes']:.0f} times the memory."
    expect(page.locator(".closing")).to_have_text(re.compile(
        rf"^For 1,820 pixels, linear computed for {seconds[0]}0* s .* softmax with cache computed for {seconds[1]}0* s .*{times}$"))


def assert_papers(page, lanes):
    """Each paper has the pixels of its lane; the bar of softmax is longer than that of linear attention."""
    blank = "(c) => Array.from(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).some((x, i) => i % 4 === 3 && x === 0)"
    canvases = page.locator(".papers canvas")
    assert canvases.count() == len(lanes)
    for canvas, lane in zip(canvases.all(), lanes):
        assert len(lane["values"]) == lane["size"] and not canvas.evaluate(blank)
    widths = page.locator(".papers .fill").evaluate_all("(all) => all.map((e) => e.style.transform.match(/[\\d.]+/)[0])")
    assert float(widths[1]) > float(widths[0])


def test_turns_are_of_equal_time(open_page):
    """Who has computed least is next, so clocks differ by a turn at most."""
    page = open_page("#race")
    start(page)
    page.wait_for_function("() => Number(document.querySelector('#race .facts').textContent.match(/[\\d.]+/)?.[0]) > 0.02",
                           timeout=120_000)
    lanes = stop(page)
    longest = max(p["ms"] * (p["to"] - p["from"]) for lane in lanes for p in lane["points"])
    clocks = [lane["ms"] for lane in lanes if lane["tokens"] < lane["size"]]
    assert max(clocks) - min(clocks) <= longest * 1.01
    assert len(lanes) >= 2 and all(lane["tokens"] > 0 for lane in lanes)


def test_pause_go_on_and_anew(small, open_page):
    page = open_page("#race", at=small)
    turn = Turn(page, after=3)  # or the race could be over before its pause
    start(page)
    turn.wait()
    page.click("#race-go")
    turn.route.continue_()
    expect(page.locator("#race-go")).to_have_text("Go on")
    paused = tokens(page)
    page.click("#race-go")
    page.wait_for_function("(n) => Number(document.querySelector('.lanes td').textContent.replace(',', '')) >= n", arg=paused[0])
    page.click("#race-new")
    expect(page.locator("#live")).to_have_text("The race is over.", timeout=120_000)


class Turn:
    """Holds the turn after so many others on its way to the server, until released."""

    def __init__(self, page, after):
        self.page, self.before, self.route = page, after, None
        page.route("**/generations", self.pass_or_hold)

    def pass_or_hold(self, route):
        self.before -= 1
        if self.before == -1:
            self.route = route
        else:
            route.continue_()

    def wait(self):
        while not self.route:
            drawn(self.page)
        return self.route.request


def pause_in_a_turn(page, after):
    turn = Turn(page, after)
    start(page)
    turn.wait()
    page.click("#race-go")
    return turn


@pytest.mark.long
def test_a_pause_is_one_when_the_turn_is_over(small, open_page):
    page = open_page("#race", at=small)
    turn = pause_in_a_turn(page, after=3)
    expect(page.locator("#race-go")).to_be_disabled()
    expect(page.locator("#race-go")).to_have_text("Pause")
    turn.route.continue_()
    expect(page.locator("#race-go")).to_have_text("Go on")
    lanes = page.evaluate(LANES)
    assert sum(len(lane["points"]) for lane in lanes) == 4
    page.click("#race-go")
    expect(page.locator("#live")).to_have_text("The race is over.", timeout=120_000)


@pytest.mark.long
def test_a_turn_of_an_earlier_race_does_not_count(small, open_page):
    page = open_page("#race", at=small)
    turn = Turn(page, after=3)
    start(page)
    begun = turn.wait()
    page.click("#race-new")
    expect_tokens(page, 0)
    assert "state" in begun.post_data_json
    with page.expect_request("**/generations") as following:
        turn.route.continue_()
    assert "state" not in following.value.post_data_json
    expect(page.locator("#live")).to_have_text("The race is over.", timeout=120_000)
    for lane in page.evaluate(LANES):
        assert [p["from"] for p in lane["points"]] == [0, *(p["to"] for p in lane["points"][:-1])]


def test_a_page_that_goes_leaves_no_state_behind(small, open_page):
    """The running turn is forgotten too."""
    page = open_page("#race", allow="ERR_FAILED", at=small)
    turn = Turn(page, after=3)
    start(page)
    before = turn.wait().post_data_json["state"]
    with page.expect_response(lambda answer: answer.request.method == "DELETE" and answer.url.endswith(before)):
        page.evaluate("dispatchEvent(new Event('pagehide'))")
    turn.route.abort()


@pytest.mark.parametrize("locale", [pytest.param("en-US", marks=pytest.mark.long), "zh-CN"])
def test_nothing_is_clipped_on_a_phone(small, open_page, locale):
    page = open_page("#race", at=small, locale=locale, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.click("#race-go")
    expect(page.locator("#live")).to_have_text(re.compile("The race is over.|跑完了。"), timeout=120_000)
    expect(page.locator(".closing")).to_contain_text("1,820")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator(".wide").evaluate("(e) => e.scrollWidth <= e.clientWidth")
    outside = """(all) => all.filter((text) => {
        const [own, drawing] = [text.getBoundingClientRect(), text.closest('svg').getBoundingClientRect()];
        return own.left < drawing.left - 1 || own.right > drawing.right + 1;
    }).map((text) => text.textContent)"""
    assert page.locator(".chart text").evaluate_all(outside) == []


@pytest.mark.parametrize("option", [("--max-state-bytes", "400000"), ("--state-mb", "1")])
def test_a_cache_without_memory_stops_and_linear_goes_on(serve, open_page, option):
    """The shipped cache needs 1.5 MiB at its end, twice: before and after a turn."""
    page = open_page("#race", at=serve(ROOT / "weights", *option), allow=r"status of 400")
    start(page)
    expect(page.locator("#live")).to_have_text("The race is over.", timeout=120_000)
    linear, softmax = tokens(page)
    assert linear == 1568 > softmax > 0
    expect(page.locator(".papers .lane-1")).to_contain_text(
        re.compile(r"softmax with cache stops here: the server has no memory left to keep its cache of \d+ KiB"))
    expect(page.locator(".closing")).to_contain_text("times the memory")
    expect(page.locator("#race-error")).to_be_hidden()


@pytest.mark.long
def test_a_server_without_memory_at_the_moment_is_asked_again(small, open_page):
    page = open_page("#race", at=small, allow="status of 429")
    refusals = []

    def answer(route):
        if len(refusals) < 3 and "state" in route.request.post_data_json:
            refusals.append(route)
            body = {"error": {"message": "the request may need more bytes than are free", "type": "", "param": "state", "code": ""}}
            route.fulfill(status=429, json=body)
        else:
            route.continue_()

    page.route("**/generations", answer)
    start(page)
    expect(page.locator("#live")).to_have_text("The race is over.", timeout=120_000)
    assert len(refusals) == 3
    expect_tokens(page, 14 * 130)


def test_the_shipped_models_race(serve, open_page):
    """Without a folder of demonstrations."""
    page = open_page("#race", at=serve(ROOT / "weights"))
    expect(page.locator(".papers li b")).to_have_text(["linear", "softmax with cache"])


def test_chinese(small, open_page):
    page = open_page("#race", locale="zh-CN", at=small)
    expect(page.locator(".lanes tbody th").first).to_have_text("线性")
    expect(page.locator("#race-go")).to_have_text("开跑")
    page.click("#race-go")
    expect(page.locator(".closing")).to_contain_text("线性算了", timeout=120_000)
    expect(page.locator(".closing")).to_contain_text("带缓存的 softmax 算了")
    expect(page.locator(".papers canvas").nth(1)).to_have_attribute("aria-label", "带缓存的 softmax 画的 1,820 个像素")


@pytest.mark.long
def test_the_closing_sentence_waits_for_the_end(small, open_page):
    """The times of the first tokens say nothing."""
    page = open_page("#race", at=small)
    pause_in_a_turn(page, after=6).route.continue_()
    expect(page.locator("#race-go")).to_have_text("Go on")
    assert all(n > 0 for n in tokens(page))
    expect(page.locator(".closing")).to_be_hidden()
    page.click("#race-go")
    expect(page.locator("#live")).to_have_text("The race is over.", timeout=120_000)
    expect(page.locator(".closing")).to_contain_text("times the memory")


# Tokens of the second in the race, who is the slowest that gets anywhere.
SECOND = """(least) => Array.from(document.querySelectorAll('.lanes td:nth-child(2)'))
    .map((td) => Number(td.textContent.replaceAll(',', ''))).sort((a, b) => b - a)[1] >= least"""


def test_picture(open_page, screenshots, pytestconfig):
    """docs/images/race.png"""
    page = open_page("#race", viewport={"width": 1280, "height": 1000})
    start(page)
    least = 1568 if pytestconfig.getoption("screenshots") else 100
    page.wait_for_function(SECOND, arg=least, timeout=240_000)
    stop(page)
    page.evaluate("document.activeElement.blur()")
    page.locator("#race").screenshot(path=screenshots / "race.png", animations="disabled")
    assert (screenshots / "race.png").stat().st_size > 20_000
