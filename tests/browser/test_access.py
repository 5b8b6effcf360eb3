"""Every tab on all widths of screens, with forced colours, less motion, twice the size, another language. axe judges
it, and so do the page's width and its loaded bytes."""

import contextlib
import importlib.resources
import os
import re
import subprocess

import pytest
from playwright.sync_api import expect

import sounds
from test_share import assert_alike
from watching import drawn

TABS = {
    "couplets": ("#海上明月&seed=7", "() => document.querySelector('.answers:not(.idle) .facts')?.textContent"),
    "images": ("#images&n=4&seed=3", "() => document.querySelector('.bits')?.textContent"),
    "poems": ("#poems&kind=唐&title=秋夜&form=7x8&acrostic=春夏秋冬江月花山&temperature=1&seed=5",
              "() => document.querySelector('#poems .facts')?.textContent"),
    "speech": ("#speech", "() => document.querySelector('#speech-record')?.textContent"),
    "how": ("#how&line=海上明月&seed=1&step=4",
            "() => document.querySelectorAll('.steps li').length === 6 && location.hash.includes('step=4')"),
    "strip": ("#strip&turns=0.3&digits=4",
              "() => location.hash.endsWith('digits=4') && document.querySelector('#strip-fork')?.disabled === false"),
    "race": ("#race", "() => document.querySelectorAll('.lanes tbody tr').length >= 2"),
}
WAYS = {
    "desktop": {"viewport": {"width": 1280, "height": 900}},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True},
    # 1280 at 200 %, dark, without motion
    "calm": {"viewport": {"width": 640, "height": 450}, "device_scale_factor": 2, "color_scheme": "dark",
             "reduced_motion": "reduce"},
    "chinese": {"locale": "zh-CN", "viewport": {"width": 320, "height": 640}},
}
# Bytes on the wire of the page with its styles and scripts.
BUDGET = 60_000  # of a first visit, before the dictionary
ALL_TABS = 180_000  # of all tabs, with the couplets' dictionary


def faults(page):
    """The findings of axe."""
    source = importlib.resources.files("axe_playwright_python") / "axe.min.js"
    page.evaluate(source.read_text(encoding="utf-8"))
    found = page.evaluate("() => axe.run()")["violations"]
    return [(fault["id"], [node["target"] for node in fault["nodes"]]) for fault in found]


@pytest.fixture
def sound(pytestconfig):
    """The bytes of a WAV file in which the served model of speech hears words."""
    path = pytestconfig.getoption("sound")
    if path:
        return path.read_bytes()
    return sounds.wav(sounds.babble(2.5))  # enough for random weights


def prepare(page, tab, sound):
    """Opens the parts that show only after a click."""
    if tab == "strip":
        page.click("#strip-fork")
        expect(page.locator(".ways button:enabled")).to_have_count(3)
    if tab == "speech":
        page.set_input_files("#speech-file", {"name": "said.wav", "mimeType": "audio/wav", "buffer": sound})
        expect(page.locator("#speech .words li").first).to_be_visible()
    if tab == "race":
        page.click("#race-go")
        page.wait_for_function(
            "() => Array.from(document.querySelectorAll('.lanes td:nth-child(2)')).every((td) => td.textContent !== '0')")
        page.click("#race-go")


@pytest.fixture
def keep(pytestconfig, screenshots):
    """keep(page, name): saves a picture of the whole page where pictures are asked for; painting it takes as long as
    judging it."""

    def keep_(page, name):
        if pytestconfig.getoption("screenshots"):
            page.screenshot(path=screenshots / f"{name}.png", full_page=True, animations="disabled")

    return keep_


def fits(page):
    page.evaluate("Promise.all(document.getAnimations().map((a) => a.finished.catch(() => {})))")
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tab", TABS)
def test_tab(open_page, keep, sound, tab, way):
    hash_, ready = TABS[tab]
    page = open_page(hash_, **WAYS[way])
    page.wait_for_function(ready)
    prepare(page, tab, sound)
    assert fits(page)
    assert faults(page) == []
    keep(page, f"{tab}-{way}")


@pytest.mark.parametrize("way, told", [("desktop", True), ("phone", False)])
def test_keys_are_told_where_there_are_keys(open_page, way, told):
    page = open_page(TABS["couplets"][0], **WAYS[way])
    page.wait_for_function(TABS["couplets"][1])
    expect(page.locator("#keys .en")).to_contain_text("hang", use_inner_text=True)
    for tab in ("couplets", "images"):
        page.click(f"#{tab}-tab")
        expect(page.locator(f"#{tab} .en kbd").first).to_be_visible(visible=told)


def test_keys_are_told_without_a_pointer_that_hovers(browser, open_page, origin):
    """A sentence that names keys has them, or is not there: a browser without a pointer has keys."""
    flags = ["--no-sandbox", "--disable-gpu", "--blink-settings=primaryHoverType=1,availableHoverTypes=1,primaryPointerType=4,availablePointerTypes=4"]
    path = os.environ.get("CHROMIUM", "/usr/bin/chromium-headless-shell")
    with contextlib.closing(browser.browser_type.launch(executable_path=path, args=flags)) as other:
        page = other.new_page(locale="en-US")
        page.goto(f"{origin}/{TABS['couplets'][0]}")
        page.wait_for_function(TABS["couplets"][1])
        assert page.evaluate("matchMedia('(hover: none) and (pointer: fine)').matches")
        expect(page.locator("#keys .en")).to_contain_text("with ↑ ↓.", use_inner_text=True)


def assert_chosen(page, tab):
    drawn(page)
    edges = page.locator(".tabs a").evaluate_all(
        "(all) => all.map((e) => [e.id, getComputedStyle(e).borderBottomColor, e.offsetHeight])"
    )
    (chosen,) = (edge for edge in edges if edge[0] == f"{tab}-tab")
    others = {edge[1] for edge in edges if edge is not chosen}
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert len(others) == 1 and chosen[1] not in others and chosen[1] != paper


@pytest.mark.long
@pytest.mark.parametrize("tab", TABS)
def test_a_tab_in_forced_colours(open_page, keep, sound, tab):
    page = open_page(TABS[tab][0], forced_colors="active")
    page.wait_for_function(TABS[tab][1])
    assert_chosen(page, tab)
    prepare(page, tab, sound)
    # not for axe: it reads the colours of the style sheet, which forced ones replace, and all else is as without them
    assert fits(page)
    keep(page, f"{tab}-forced")


def test_one_look_for_light_and_dark(open_page):
    """The page is a door at night, whichever scheme a visitor prefers."""
    pages = [open_page("#海上明月&seed=7", reduced_motion="reduce", color_scheme=scheme) for scheme in ("light", "dark")]
    for page in pages:
        page.wait_for_function(TABS["couplets"][1])
        expect(page.locator(".pairs li").first).to_contain_text("hǎi")  # the dictionary is there
    assert_alike(*pages, "header", ".scroll.upper", ".scroll.lower", ".candidates", "footer")


def test_without_a_script_all_is_there(open_page):
    page = open_page(java_script_enabled=False, viewport={"width": 1280, "height": 900})
    for seen in ("#upper", "#paint", "#how .equations", "#how .crossing svg", ".claim", ".what.en", ".what.zh"):
        expect(page.locator(seen)).to_be_visible()
    expect(page.locator("#lab")).to_contain_text("needs JavaScript")
    page.click("#how-tab")
    assert page.url.endswith("#how")


def test_what_is_special_is_said_above_the_fold(open_page):
    page = open_page()
    for tab in TABS:
        page.click(f"#{tab}-tab")
        expect(page.locator(f"#{tab}")).to_be_visible()
        for viewport in ({"width": 1280, "height": 720}, {"width": 390, "height": 664}):
            page.set_viewport_size(viewport)
            claim = page.locator(".claim")
            if tab == "speech":  # a model without a state
                expect(claim.locator("p")).to_be_hidden()
            else:  # the size is that of the tab's model, and racers have several
                size = "" if tab == "race" else r" \(\d+ KiB here\)"
                expect(claim).to_contain_text(re.compile(rf"A request's memory keeps one size{size}, however long the answer\."))
            box = claim.bounding_box()
            assert box["y"] + box["height"] < viewport["height"] / 2
            targets = claim.locator("a").evaluate_all("(all) => all.map((a) => a.getAttribute('href'))")
            assert targets == ["#how", "https://arxiv.org/abs/2006.16236", "/docs"]


def loaded_by(browser, address, ready):
    """Bytes on the wire by URL, heads and packed bodies, that the page loads until the tab is ready."""
    page = browser.new_page()
    finished = []
    page.on("requestfinished", lambda request: finished.append(request))
    page.goto(address)
    expect(page.locator("#strip-tab")).to_be_visible()  # which models are served is known
    page.wait_for_function(ready)
    loaded = {}
    for request in list(finished):
        if "/v1/" not in request.url:
            sizes = request.sizes()
            loaded.setdefault(request.url.split("#")[0], sizes["responseBodySize"] + sizes["responseHeadersSize"])
    page.close()
    return loaded


def test_the_budget(browser, origin):
    """Page, styles and scripts of a first visit, whichever tab it begins with, and of one who has opened every tab; a
    tab's script comes with the tab."""
    everything = {}
    for tab, (hash_, ready) in TABS.items():
        loaded = loaded_by(browser, f"{origin}/{hash_}", ready)
        first = {url: n for url, n in loaded.items() if not url.endswith("/glosses.json")}  # it comes after the first answer
        assert len(first) > 7 and sum(first.values()) <= BUDGET, (tab, first)
        assert all(n > 0 for n in loaded.values()), loaded
        assert any(url.endswith(f"/{tab}.js") for url in loaded), tab
        assert not any(url.endswith(f"/{other}.js") for url in loaded for other in TABS if other != tab), tab
        everything |= loaded
    assert sum(everything.values()) <= ALL_TABS, (sum(everything.values()), everything)


def test_nothing_waits_for_the_models(open_page):
    page = open_page()
    page.route("**/v1/**", lambda route: None)  # never answered
    page.reload()
    expect(page.locator("#upper")).to_be_visible()
    expect(page.locator(".scroll.upper")).to_have_text("海上明月")
    page.click("#how-tab")
    expect(page.locator("#how .equations")).to_be_visible()
    page.unroute_all(behavior="ignoreErrors")


def test_the_examples_of_the_api_work(open_page, origin):
    page = open_page("docs")
    examples = page.evaluate("import('/docs_text.js').then(({ EXAMPLES }) => EXAMPLES)")
    sent = {name: example["json"] for name, example in examples.items() if "json" in example and "{" not in name and "reload" not in name}
    assert len(sent) == 12
    for name, body in sent.items():
        reply = page.request.post(origin + name.removeprefix("POST "), data=body)
        assert reply.ok, (name, reply.text())
    curl = page.locator(".operation", has_text="POST /v1/completions").first.locator("pre").first.inner_text()
    assert subprocess.run(["bash", "-c", curl], capture_output=True, text=True, timeout=60).stdout.startswith('{"id":"cmpl-')


def test_the_api_has_a_page(open_page):
    page = open_page("docs")
    expect(page.locator("h4", has_text="POST /v1/completions")).to_be_visible()
    document = page.context.request.get(page.url.replace("/docs", "/openapi.json")).json()
    count = sum(method != "parameters" for item in document["paths"].values() for method in item)
    expect(page.locator(".operation")).to_have_count(count)
    expect(page.locator(".operation", has_text="POST /v1/states").first).to_contain_text("prompt")
    expect(page.locator("#contents a")).to_have_count(count)
    assert {text for text in page.locator(".operation summary .en").all_inner_texts() if text.startswith("1 ")} == {"1 field"}
    expect(page.locator(".operation pre")).to_have_count(2 * count)
    for kind, place in (("responses", "RESPONSE"), ("conversations", "CONVERSATION"), ("states", "STATE")):
        example = page.locator(".operation", has_text=f"GET /v1/{kind}/{{id}}").first.locator("pre").first
        expect(example).to_contain_text(f"/v1/{kind}/{place}")
    for height in page.locator(".group").evaluate_all("(all) => all.map((e) => e.offsetHeight)"):
        assert height <= 3 * 900, "a group has three screens at most"
    assert faults(page) == []
    page.click("text=中文")
    expect(page.locator(".operation .zh", has_text="对下联、写诗、续写文字。")).to_be_visible()
    untold = """async () => {
        const { SUMMARIES } = await import('/docs_text.js');
        const names = Array.from(document.querySelectorAll('.operation h4'), (e) => e.textContent);
        return [names.filter((name) => !SUMMARIES[name]), Object.keys(SUMMARIES).filter((name) => !names.includes(name))];
    }"""
    assert page.evaluate(untold) == [[], []]
    assert faults(page) == [] and fits(page)
    phone = open_page("docs", **WAYS["phone"])
    expect(phone.locator(".operation")).to_have_count(count)
    assert fits(phone) and faults(phone) == []
    plain = open_page("docs", java_script_enabled=False)
    expect(plain.locator("#operations a")).to_have_attribute("href", "/openapi.json")
