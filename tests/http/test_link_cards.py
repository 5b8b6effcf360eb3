"""The picture of a link (/link.png): the page's view of it, answered by the API, drawn by the server."""

import concurrent.futures
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest

import png
from client import call, complete_ok, connect
from server import Server, run, wait_until
from settings import ROOT

pytestmark = pytest.mark.quick

FONT = Path("/usr/share/fonts/truetype/wqy/wqy-microhei.ttc")  # Debian's fonts-wqy-microhei, of scripts/deps test
OWN = (ROOT / "web" / "card.png").read_bytes()
LINE = {"line": "海上明月", "n": 5, "temperature": 0.8, "seed": 1}
POEM = {"tab": "poems", "kind": "唐", "title": "秋夜", "form": "5x4", "rhyme": 1, "acrostic": "", "begin": "", "temperature": 0.8,
        "seed": 1}
RARE = "\U0002a6a5"  # four dragons


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    models = tmp_path_factory.mktemp("models")
    (models / "poem").symlink_to(ROOT / "weights" / "poem")
    with Server("--models", models, "--font", FONT) as started:
        yield started


@pytest.fixture
def server(shared):
    shared.wait_idle()
    yield shared
    shared.check_unharmed()
    shared.wait_idle()


def ask(server, fields, **changed):
    return call(server.port, "GET", f"/link.png?{urlencode(fields | changed)}")


def card(server, fields, **changed):
    """The file."""
    reply = ask(server, fields, **changed)
    assert reply.status == 200 and reply.headers["content-type"] == "image/png", reply.text
    return reply.body


def tags(server, fields):
    text = call(server.port, "GET", f"/?{urlencode(fields)}").text
    return dict(re.findall(r'<meta property="og:(\w+)" content="([^"]*)">', text))


def path_of(server, address):
    site, path = address.replace("&amp;", "&").split(f":{server.port}")
    assert site == "http://127.0.0.1"
    return path


def as_page(server, **fields):
    """The answer to a request of the page, which leaves `rank` to the server."""
    return complete_ok(server.port, rank=None, **fields)


def lines(server, fields):
    """The lines as the page lists them: in the server's order, each once."""
    choices = as_page(server, model="couplet", prompt=fields["line"],
                      **{name: fields[name] for name in ("n", "temperature", "seed") if name in fields})["choices"]
    return list(dict.fromkeys(choice["text"] for choice in choices))


def test_a_couplet_is_the_one_of_the_page(server):
    """Each line of the list has a picture, and no other link of that line another one: with a temperature, and without one,
    as the page asks at first, for the best of a pool."""
    listed = {}
    for seed in range(1, 7):
        for plan in ({"temperature": 0.3}, {}):
            fields = {"line": LINE["line"], "n": 5, "seed": seed, **plan}
            texts = lines(server, fields)
            for pick, text in enumerate(texts):
                listed.setdefault(text, []).append(card(server, fields, pick=pick))
            assert card(server, fields) == card(server, fields, pick=0) == card(server, fields, pick=len(texts))
        assert card(server, fields, temperature="") == card(server, fields), "an empty field is none"
    assert all(len(set(drawn)) == 1 for drawn in listed.values())
    assert len(listed) > 3 and len({drawn[0] for drawn in listed.values()}) == len(listed)
    assert max(len(drawn) for drawn in listed.values()) > 1, "some line was drawn by several links"


@pytest.mark.parametrize("line, answered, side", [("海上明月", "lower", "left"), ("春满乾坤福满门", "upper", "right")])
def test_a_given_lower_line_hangs_on_the_left(server, line, answered, side):
    """As on the page: its answers are upper lines, which hang on the right."""
    fields = {"line": line, "n": 5, "seed": 1}
    assert as_page(server, model="couplet", prompt=line, n=5, seed=1)["answered"] == answered
    first, other = (png.read(card(server, fields, pick=pick)) for pick in (0, 1))
    row = first.width * first.channels
    different = {i % row for i, (a, b) in enumerate(zip(first.values, other.values)) if a != b}
    sides = {"left" if x < row / 2 else "right" for x in different}
    assert sides == {side}


def test_it_is_a_picture(server):
    for fields in (LINE, POEM):
        picture = png.read(card(server, fields))
        assert (picture.width, picture.height, picture.channels) == (1200, 630, 3)
        colours = {picture.values[i : i + 3] for i in range(0, len(picture.values), 3)}
        assert {b"\x15\x13\x1b", b"\xff\xdf\x91", b"\xb3\x16\x1e"} <= colours  # night, gold, red


def test_white_space_is_no_part_of_a_line(server):
    assert card(server, LINE, line=" 海上　明月\n") == card(server, LINE)


def test_a_caption_is_part_of_it(server):
    pictures = {card(server, LINE, banner=text) for text in ("", "月满人间", "人间月满")}
    assert len(pictures) == 3 and card(server, LINE) in pictures


def test_a_poem_is_the_one_of_the_page(server):
    """A link that begins with all of another's poem but its last mark, which the form leaves no choice of, is drawn alike."""
    asked = {"form": "5x4", "rhyme": True, "temperature": 0.8, "seed": 1}
    text = complete_ok(server.port, model="poem", prompt="唐《秋夜》", **asked)["choices"][0]["text"]
    drawn = card(server, POEM)
    assert len(text) == 24 and card(server, POEM, begin=text[:-1], seed=9) == drawn
    others = [card(server, POEM, **changed) for changed in
              ({"seed": 4}, {"title": "春日"}, {"kind": "宋"}, {"form": "7x4"}, {"rhyme": ""}, {"acrostic": "春夏秋冬"},
               {"form": "", "rhyme": ""}, {"begin": "明月"}, {"temperature": 0}, {"pattern": "oblique"}, {"form": "忆江南"})]
    assert len({drawn, *others}) == 1 + len(others)


def test_a_poem_of_a_pool_is_the_one_of_the_page(server):
    """A link without a temperature asks for the best poems of a pool, of which `pick` chooses one."""
    fields = {name: value for name, value in POEM.items() if name != "temperature"}
    choices = as_page(server, model="poem", prompt="唐《秋夜》", form="5x4", rhyme=True, seed=1, n=3)["choices"]
    texts = list(dict.fromkeys(choice["text"] for choice in choices))
    assert len(texts) > 1
    for pick, text in enumerate(texts):
        assert card(server, fields, pick=pick) == card(server, POEM, begin=text[:-1], seed=9), pick
    assert card(server, fields, pick=3) == card(server, fields, pick=0)


def test_the_page_names_it(server):
    for fields, title in ((LINE | {"banner": "月满人间", "pick": 2}, "海上明月 · Linnet"), (POEM, "《秋夜》 · Linnet")):
        said = tags(server, fields)
        assert said["title"] == title
        reply = call(server.port, "GET", path_of(server, said["image"]))
        assert reply.body == card(server, fields) and reply.headers["cache-control"] == "public, max-age=86400"
    for fields in ({"line": "海上明月"}, {"tab": "poems"}, {"tab": "race", "seed": 1},
                   {"tab": "images", "model": "photos", "n": 1, "seed": 1}):
        assert path_of(server, tags(server, fields)["image"]) == "/card.png", fields


@pytest.mark.parametrize("headers, site", [
    ({"Host": "linnet.localhost:81"}, "http://linnet.localhost:81"), ({"Host": "[::1]:81"}, "http://[::1]:81"),
    ({"Host": "linnet.localhost", "X-Forwarded-Proto": "HTTPS"}, "https://linnet.localhost"),
    ({"Host": "localhost", "X-Forwarded-Proto": "gopher"}, "http://localhost"),
])
def test_other_sites_get_whole_addresses(server, headers, site):
    """As Open Graph wants them: with the name that the page was asked for by, and TLS where a proxy has it."""
    for query in ("", f"?{urlencode(LINE)}"):
        text = call(server.port, "GET", f"/{query}", headers=headers).text
        assert re.search(r'og:image" content="([^"]*)/(card|link).png', text)[1] == site


def test_a_name_that_is_none_names_no_site():
    """Where keys are asked for, every name is let in."""
    with Server("--font", "none", "--api-key", "secret", "--public", "/,/livez,/readyz") as server:
        text = call(server.port, "GET", "/", headers={"Host": "a\"><script>"}).text
        assert 'og:image" content="/card.png"' in text and "<script>\"" not in text


@pytest.mark.parametrize("fields, param", [
    ({"line": "海"}, "seed"), (LINE | {"seed": "x"}, "seed"), (LINE | {"n": 1000}, "n"), (LINE | {"temperature": 11}, "temperature"),
    (LINE | {"pick": -1}, "pick"), (LINE | {"pick": 1000}, "pick"), (LINE | {"line": "abc"}, "prompt"), (LINE | {"line": ""}, "prompt"),
    (LINE | {"line": "月" * 33}, "prompt"), (LINE | {"line": "月" * 200}, "line"), (LINE | {"banner": "月" * 90}, "banner"),
    (POEM | {"form": "6x6"}, "form"), (POEM | {"acrostic": "春"}, "acrostic"), (POEM | {"title": "月" * 90}, "title"),
])
def test_a_damaged_link_is_refused(server, fields, param):
    reply = ask(server, fields)
    assert reply.status == 400 and reply.error["param"] == param, reply.text


def test_a_missing_character(server):
    assert ask(server, LINE, banner=RARE).body == OWN == ask(server, LINE, banner=RARE).body
    assert server.log.count("lacks U+2A6A5") == 1


def test_many_at_once(server):
    links = [LINE | {"seed": seed} for seed in range(1, 9)] + [POEM | {"seed": seed} for seed in range(1, 9)]
    alone = [card(server, fields) for fields in links]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert list(pool.map(lambda fields: card(server, fields), links)) == alone


def test_clients_that_leave(server):
    """In every part of an answer: some while it is computed, some while they wait to be drawn."""
    for seed in range(30):
        with connect(server.port) as left:
            left.sendall(f"GET /link.png?{urlencode(LINE | {'seed': seed})} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert card(server, LINE)


def test_without_a_font():
    with Server("--font", "none") as server:
        assert path_of(server, tags(server, LINE)["image"]) == "/card.png"
        reply = ask(server, LINE)
        assert reply.status == 200 and reply.body == OWN and reply.headers["cache-control"] == "no-cache"
        assert ask(server, LINE, seed="").error["param"] == "seed"


def test_keys():
    with Server("--font", FONT, "--api-key", "secret", "--public", "/link.png,/livez,/readyz") as server:
        assert len(card(server, LINE)) > 1000
        assert call(server.port, "GET", f"/?{urlencode(LINE)}").status == 401
    with Server("--font", FONT, "--api-key", "secret") as server:
        assert ask(server, LINE).status == 401


def refused(path):
    """The program's one-line error about a font; it does not start."""
    ended = run("serve", "--port", 0, "--models", ROOT / "weights", "--font", path)
    assert ended.returncode != 0
    said = [line for line in ended.stderr.splitlines() if "--font" in line]
    assert len(said) == 1, ended.stderr
    return said[0]


def test_a_bad_font_is_refused_at_the_start(tmp_path):
    cut = tmp_path / "cut.ttc"
    cut.write_bytes(FONT.read_bytes()[:2_000_000])
    text = tmp_path / "text.ttf"
    text.write_text("no font")
    assert "no font, or damaged" in refused(cut) and "no font, or damaged" in refused(text)
    assert "No such file" in refused(tmp_path / "absent.ttf") and "is no file" in refused(tmp_path)


def test_a_font_that_shrinks(tmp_path):
    """The server lives on, and shows the page's own picture."""
    font = tmp_path / "font.ttc"
    font.write_bytes(FONT.read_bytes())
    with Server("--font", font) as server:
        assert card(server, LINE) != OWN
        with font.open("r+b") as file:
            file.truncate(5000)
        assert ask(server, LINE, line="春风得意花千里").body == OWN
        wait_until(lambda: "cannot be drawn" in server.log, 10, "a line in the log")
