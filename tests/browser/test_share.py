"""A link restores the copied view in a fresh profile, pixel by pixel; pictures can be saved."""

import base64
import re
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from card import draw
from test_images import image_model_of, images, paint, painted, stroke  # noqa: F401 (a fixture)
from test_page import UPPER, ask, finished
from watching import drawn

VIEW = {"viewport": {"width": 1280, "height": 1000}, "reduced_motion": "reduce"}

PIXELS = """const pixels = async (text) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], { type: 'image/png' }));
    const context = new OffscreenCanvas(image.width, image.height).getContext('2d');
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, image.width, image.height);
};"""

# The size of a PNG, and its colours with how often each comes.
READ = (
    """async (file) => {"""
    + PIXELS
    + """
    const { width, height, data } = await pixels(file);
    const counts = new Map();
    for (const word of new Uint32Array(data.buffer)) counts.set(word, (counts.get(word) ?? 0) + 1);
    const name = (word) => [word & 255, (word >> 8) & 255, (word >> 16) & 255].join();
    const colours = {};
    for (const [word, n] of counts) colours[name(word)] = (colours[name(word)] ?? 0) + n;
    return { width, height, colours };
}"""
)

# The largest difference of two PNGs in any channel; 256 when their sizes differ.
DIFFER = (
    """async (files) => {"""
    + PIXELS
    + """
    const [a, b] = await Promise.all(files.map(pixels));
    if (a.width !== b.width || a.height !== b.height) return 256;
    let most = 0;
    for (let i = 0; i < a.data.length; i += 1) most = Math.max(most, Math.abs(a.data[i] - b.data[i]));
    return most;
}"""
)
DITHER = 3  # the browser's own, where a gradient lies below


def text(data):
    """Bytes as a page takes them best: a list of numbers is seconds of work."""
    return base64.b64encode(data).decode()


def seen(page, *places):
    """Pictures of these elements, with nothing in focus and no pointer over them."""
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    return {place: page.locator(place).screenshot(animations="disabled") for place in places}


def assert_alike(page, fresh, *places):
    mine, theirs = seen(page, *places), seen(fresh, *places)
    for place in places:
        assert page.evaluate(DIFFER, [text(mine[place]), text(theirs[place])]) <= DITHER, place


def test_a_couplet(open_page):
    places = (".scroll.upper", ".scroll.lower", ".banner", ".candidates", ".rules")
    page = open_page(**VIEW)
    page.click("summary")
    page.fill("#banner", "月满人间")
    ask(page, UPPER)
    finished(page)
    page.press("#upper", "ArrowDown")
    page.keyboard.press("ArrowDown")
    finished(page)
    fresh = open_page(page.evaluate("location.hash"), **VIEW)
    finished(fresh)
    page.click("summary")  # closed, as at first
    assert_alike(page, fresh, *places)


def test_a_completed_drawing(images):
    places = (".tiles", ".pad", "#large", "#heat")
    page = images(**VIEW)
    stroke(page, [(9, 7), (13, 5), (18, 7), (18, 10), (14, 15)])
    page.focus("#kept")
    page.keyboard.press("ArrowLeft")
    paint(page, n=4, seed=9, button="#complete")
    painted(page)
    page.click(".tiles li:nth-child(3)")
    drawn(page)  # until then the bits shown are the first picture's
    expect(page.locator(".bits")).not_to_be_empty()
    bits = page.locator(".bits").inner_text()
    link = page.evaluate("location.hash")
    assert re.fullmatch(r"#images&n=4&temperature=1&seed=9&pick=2&rows=13&ink=[\w-]+", link)
    fresh = images(link, **VIEW)
    painted(fresh)
    expect(fresh.locator(".bits")).to_have_text(bits)
    assert_alike(page, fresh, *places)


def test_the_inside_of_a_state(open_page):
    ready = "() => document.querySelectorAll('.steps li').length === 9 && location.hash.includes('step=')"
    page = open_page("#how&line=一盏青灯听夜雨&seed=3&layer=2&head=5&step=8", **VIEW)
    page.wait_for_function(ready)
    page.click(".steps li:nth-child(6) button")
    link = page.evaluate("location.hash")
    assert link.endswith("layer=2&head=5&step=5")
    fresh = open_page(link, **VIEW)
    fresh.wait_for_function(ready)
    assert_alike(page, fresh, ".bench")


@pytest.mark.parametrize("ink, rows", [("!!!", 5), ("AAA", 5), ("AP8B", 5), ("AP8A_wD_ABM", 0), ("AP8A_wD_ABM", 28)])
def test_a_damaged_drawing_is_told(open_page, ink, rows):
    page = open_page(f"#images&n=1&temperature=1&seed=1&rows={rows}&ink={ink}")
    expect(page.locator("#image-error")).to_have_text("The drawing in the link cannot be read.")


@pytest.mark.parametrize("values", [[], [0], [7], [0] * 784, [0] * 300 + [1, 0, 255], list(range(256)) * 3])
def test_a_drawing_as_text(open_page, values):
    there, back, longer = open_page().evaluate(
        """async (values) => {
            const { drawingText, drawingValues } = await import('/share.js');
            const text = drawingText(Uint8Array.from(values));
            const read = (size) => { const v = drawingValues(text, size); return v && Array.from(v); };
            return [text, read(values.length), read(values.length + 1)];
        }""",
        values,
    )
    assert back == values and longer is None and re.fullmatch(r"[\w-]*", there)


def saved(page, button):
    """The file that a button saves: its name and the result of READ."""
    with page.expect_download(timeout=120_000) as download:
        page.click(button)
    data = download.value.path().read_bytes()
    assert data.startswith(b"\x89PNG")
    return download.value.suggested_filename, page.evaluate(READ, text(data))


def test_a_couplet_is_saved(open_page):
    page = open_page(**VIEW)
    expect(page.locator("#save")).to_be_disabled()
    ask(page, UPPER)
    finished(page)
    name, plain = saved(page, "#save")
    assert name == f"linnet-{UPPER}.png" and plain["height"] == 1000
    assert plain["colours"]["255,223,145"] > 10_000  # gold: eight characters and two frames
    page.click("summary")
    page.fill("#banner", "月满人间")
    assert saved(page, "#save")[1]["height"] > plain["height"]


def test_a_sheet_is_saved(images):
    page = images(**VIEW)
    paint(page, n=5, seed=3)
    values = painted(page)
    name, sheet = saved(page, "#image-save")
    width, height = image_model_of(page)["meta"]["width"], image_model_of(page)["meta"]["height"]
    assert name == "linnet-3.png"
    assert (sheet["width"], sheet["height"]) == (8 * (3 * (width + 2) + 2), 8 * (2 * (height + 2) + 2) + 36)
    ink = page.evaluate("import('/picture.js').then(({ INK }) => INK.map(String))")
    expected = {}
    for value in (v for picture in values for v in picture):
        expected[ink[value]] = expected.get(ink[value], 0) + 64
    assert {c: n for c, n in sheet["colours"].items() if c in expected} == expected


@pytest.mark.parametrize("host, foot", [("127.0.0.1:80", "Linnet"), ("linnet.example", "Linnet · linnet.example")])
def test_saved_pictures_are_signed(open_page, host, foot):
    """By the page's name, and by its address where others can open it; a couplet has a seal."""
    drawn = open_page().evaluate(
        """async (host) => {
            const texts = [];
            const real = CanvasRenderingContext2D.prototype.fillText;
            CanvasRenderingContext2D.prototype.fillText = function (text, ...place) { texts.push(text); real.call(this, text, ...place); };
            const { coupletCanvas, poemCanvas, sheetCanvas, signature } = await import('/share.js');
            const mark = signature(new URL(`http://${host}/`));
            const canvas = Object.assign(document.createElement('canvas'), { width: 28, height: 28 });
            return [coupletCanvas('海上', '天涯', ''), poemCanvas(['海上'], '月', '朱雀'), sheetCanvas([canvas], 1, 2)]
                .map(() => mark).concat(texts.join(' '));
        }""", host)
    assert drawn[0] == foot
    assert drawn[-1].count("Linnet") == 3 and drawn[-1].count("朱 雀") == 2


@pytest.mark.parametrize("length", [4, 7, 14, 32])
def test_the_seal_covers_no_character(open_page, length):
    """On the lower scroll its square begins under the last character's."""
    lowest, seal = open_page().evaluate(
        """async (length) => {
            const texts = [], squares = [];
            const { fillText, fillRect } = CanvasRenderingContext2D.prototype;
            CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
                if (text === '水') texts.push(y + parseFloat(/([\\d.]+)px/.exec(this.font)[1]) / 2);
                fillText.call(this, text, x, y);
            };
            CanvasRenderingContext2D.prototype.fillRect = function (x, y, width, height) {
                if (width === height) squares.push(y);
                fillRect.call(this, x, y, width, height);
            };
            const { coupletCanvas } = await import('/share.js');
            coupletCanvas('月'.repeat(length), '水'.repeat(length), '');
            return [Math.max(...texts), squares[0]];
        }""", length)
    assert lowest < seal


def test_other_sites_are_given_a_picture(open_page):
    page = open_page()
    tags = page.locator("meta[property^='og:']").evaluate_all(
        "(all) => Object.fromEntries(all.map((tag) => [tag.getAttribute('property'), tag.content]))"
    )
    assert {"og:title", "og:description", "og:image:alt"} <= set(tags)
    assert re.search("[㐀-鿿].*[A-Za-z]", tags["og:description"]), "in both languages"
    reply = page.context.request.get(tags["og:image"])
    assert reply.headers["content-type"] == "image/png"
    card = page.evaluate(READ, text(reply.body()))
    assert (str(card["width"]), str(card["height"])) == (tags["og:image:width"], tags["og:image:height"])


def test_card(open_page, screenshots):
    """How web/card.png is made."""
    (screenshots / "card.png").write_bytes(draw(open_page()))


def copied(page, button):
    """The link that a button copies."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click(button)
    expect(page.locator("#live")).to_have_text("Link copied")
    return page.evaluate("navigator.clipboard.readText()")


def test_a_link_is_of_what_is_shown(open_page):
    """Not of the address: nothing is copied while an answer is awaited, or when the line was edited."""
    page = open_page(f"#{UPPER}&n=2&seed=4", **VIEW)
    finished(page)
    page.evaluate("history.replaceState(null, '', '#couplets')")
    assert copied(page, "#copy").endswith(f"/?line={quote(UPPER)}&n=2&seed=4")
    page.fill("#upper", "春风")
    expect(page.locator("#copy")).to_be_disabled()
    page.route("**/v1/**", lambda route: None)
    page.fill("#upper", "月下")
    page.click("#submit")
    drawn(page)
    expect(page.locator("#copy")).to_be_disabled()
    for tab, button in (("images", "#image-copy"), ("strip", "#strip-copy")):
        page = open_page(f"#{tab}", **VIEW)
        expect(page.locator(button)).to_be_enabled()
        page.route("**/v1/images/**", lambda route: None)
        page.click({"images": "#paint", "strip": "#strip-new"}[tab])
        expect(page.locator(button)).to_be_disabled()


def test_a_link_during_the_walk_is_of_its_line(open_page):
    page = open_page("#how&line=海上明月&seed=5&step=99", **VIEW)
    page.wait_for_function("() => document.querySelectorAll('.steps li').length === 6 && location.hash.includes('step=5')")
    page.route("**/v1/completions", lambda route: None)
    page.fill("#lab-line", "春风")
    page.click("#lab-go")
    expect(page.locator(".steps li:nth-child(2)")).to_have_text("春风")
    assert f"/?tab=how&line={quote('春风')}&" in copied(page, "#lab-copy")


def test_an_answer_that_came_in_another_tab_has_its_address(open_page):
    """Back to the tab finds it."""
    page, held = open_page("#poems", **VIEW), []
    page.route("**/v1/completions", lambda route: held.append(route))
    page.click("#poem-form .primary")
    while not held:
        drawn(page)
    page.click("#how-tab")
    with page.expect_event("requestfinished", lambda request: request == held[0].request):
        held[0].continue_()
    drawn(page)
    drawn(page)
    page.go_back()
    expect(page.locator("#poem-save")).to_be_enabled()
    page.wait_for_function("() => location.hash.includes('&seed=')")


def card_of(page, link):
    """The title and the picture that other sites show with a link."""
    fresh = page.context.browser.new_context(java_script_enabled=False).new_page()
    fresh.goto(link)
    title, picture = (fresh.locator(f"meta[property='og:{name}']").get_attribute("content") for name in ("title", "image"))
    fresh.context.close()
    reply = page.context.request.get(picture)
    assert reply.ok and reply.headers["content-type"] == "image/png"
    return title, reply.body()


@pytest.mark.parametrize("drawn", [False, True])
def test_a_link_of_pictures_has_a_card_of_its_own(images, drawn):
    """The server paints the pictures of the link, in the page's colours; the link opens the same sheet."""
    page = images(**VIEW)
    if drawn:
        stroke(page, [(9, 7), (13, 5), (18, 7), (18, 10), (14, 15)])
    paint(page, n=4, seed=9, button="#complete" if drawn else "#paint")
    values = painted(page)
    link = copied(page, "#image-copy")
    assert "/?tab=images&n=4&temperature=1&seed=9" in link and ("&ink=" in link) == drawn
    _, card = card_of(page, link)
    found = page.evaluate(READ, text(card))
    assert (found["width"], found["height"]) == (1200, 630)
    ink = page.evaluate("import('/picture.js').then(({ INK }) => INK.map(String))")
    most = max(values, key=max)
    scale = 9  # four pictures of 28 pixels and their gaps in 1140 x 570
    expected = {}
    for value in (v for picture in values for v in picture):
        expected[ink[value]] = expected.get(ink[value], 0) + scale * scale
    assert {c: found["colours"].get(c) for c in expected} == expected and max(most) > 200
    fresh = images("?" + link.split("/?")[1], **VIEW)
    assert painted(fresh) == values
    assert fresh.evaluate("location.search") == "" and fresh.evaluate("location.hash").startswith("#images&n=4")


GOLD, RED, NIGHT = "255,223,145", "179,22,30", "21,19,27"  # web/style.css


def assert_written(page, card):
    """A text in the page's colours, in the size that the tags say."""
    found = page.evaluate(READ, text(card))
    assert (found["width"], found["height"]) == (1200, 630)
    assert all(found["colours"].get(colour, 0) > 5000 for colour in (GOLD, RED, NIGHT)), found["colours"]


def test_a_link_of_a_couplet_has_a_card_of_its_own(open_page):
    """With the line as title; another line of the list, and a caption, give another picture."""
    page = open_page(**VIEW)
    ask(page, UPPER)
    answers = finished(page)
    link = copied(page, "#copy")
    title, card = card_of(page, link)
    assert title == f"{UPPER} · Linnet"
    assert_written(page, card)
    fresh = open_page("?" + link.split("/?")[1], **VIEW)
    assert finished(fresh) == answers
    others = [card_of(page, f"{link}&{more}")[1] for more in ("pick=1", "banner=%E6%9C%88%E6%BB%A1%E4%BA%BA%E9%97%B4")]
    assert len({card, *others}) == 3


def test_a_link_of_a_poem_has_a_card_of_its_own(open_page):
    page = open_page("#poems", **VIEW)
    page.locator("#poems summary").click()
    page.fill("#poem-seed", "3")
    page.click("#poem-form .primary")
    expect(page.locator("#poem-save")).to_be_enabled()
    link = copied(page, "#poem-copy")
    title, card = card_of(page, link)
    assert title == "《秋夜》 · Linnet"
    assert_written(page, card)
    assert card_of(page, link.replace("seed=3", "seed=4"))[1] != card


@pytest.mark.parametrize("query, param", [
    ("n=4", "seed"), ("seed=x", "seed"), ("seed=1&n=65", "n"), ("seed=1&class=70", "class"), ("seed=1&class=-1", "class"),
    ("seed=1&rows=3&ink=!", "ink"), ("seed=1&rows=3&ink=AAA", "ink"), ("seed=1&ink=AP8A_wD_ABM", "ink"),
    ("seed=1&rows=28&ink=AP8A_wD_ABM", "rows"), ("seed=1&rows=3&ink=" + "A" * 9000, "ink"), ("seed=1&temperature=11", "temperature"),
])
def test_a_damaged_card_is_refused(open_page, query, param):
    page = open_page()
    reply = page.context.request.get(f"{page.url.split('#')[0]}link.png?{query}")
    assert reply.status in (400, 414) and (reply.status == 414 or reply.json()["error"]["param"] == param)


def test_a_title_is_only_text(open_page):
    page = open_page()
    reply = page.context.request.get(page.url.split("#")[0] + "?line=%22%3E%3Cscript%3E")
    assert "&quot;&gt;&lt;script&gt; · Linnet" in reply.text()
