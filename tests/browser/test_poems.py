"""The poems' tab: a poem with its form and acrostic, streamed and set vertically. A link restores the same poem.
Requests that cannot be kept get an explanation. The tab works by keyboard and in both languages, and is absent where no
such model is served."""

import json
import re

import pytest
from playwright.sync_api import expect

import image_model
import poem_model
from conftest import ROOT
from test_share import saved
from watching import drawn

VIEW = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
DONE = "() => document.querySelector('#poems .facts').textContent"


def open_options(page):
    page.locator("#poems summary").click()
    return page


def lines(page):
    """Of the poem that is shown, once it is whole."""
    drawn(page)
    page.wait_for_function(DONE)
    return page.locator("#poem p").all_inner_texts()


def keeps(shown, chars, acrostic=None):
    return (all(len(line) == chars + 1 and line[-1] == "，。"[i % 2] and re.fullmatch("[㐀-鿿]+", line[:-1])
                for i, line in enumerate(shown))
            and (acrostic is None or "".join(line[0] for line in shown) == acrostic))


def rhymes(shown):
    ends = {line[-2] for line in shown[1::2]}
    return len(ends) == len(shown) // 2 and any(ends <= set(group) for group in poem_model.RHYMES)


def test_a_poem_keeps_form_and_acrostic(open_page):
    page = open_options(open_page("#poems", **VIEW))
    sent = []
    page.on("request", lambda request: sent.append(request.post_data_json) if request.url.endswith("/v1/completions") else None)
    expect(page.locator("#poem")).to_be_hidden()
    page.fill("#poem-title", "《四 时》")
    page.select_option("#poem-kind", "宋")
    page.select_option("#poem-form-of", "7x4")
    page.fill("#poem-acrostic", "春 夏秋冬")
    page.keyboard.press("Enter")
    shown = lines(page)
    assert len(shown) == 4 and keeps(shown, 7, "春夏秋冬")
    (body,) = sent
    assert body["rhyme"] is True and rhymes(shown)
    assert body["prompt"] == "宋《四 时》" and body["form"] == "7x4" and body["seed"] >= 0
    assert body["n"] == 3 and not {"best_of", "temperature", "stream"} & body.keys()
    assert page.evaluate("getComputedStyle(document.querySelector('#poem')).writingMode") == "vertical-rl"
    places = page.locator("#poem p").evaluate_all("(all) => all.map((p) => p.getBoundingClientRect().x)")
    assert places == sorted(places, reverse=True)
    expect(page.locator("#live")).to_have_text("".join(shown))
    expect(page.locator("#poem h3")).to_have_text("四 时")
    expect(page.locator("#poem .seal")).to_be_visible()
    page.click("#poem-again")
    again = lines(page)
    assert keeps(again, 7, "春夏秋冬") and again != shown


def test_a_link_is_that_very_poem(open_page):
    page = open_options(open_page("#poems", **VIEW))
    page.fill("#poem-begin", "春江花月夜，")
    page.fill("#poem-temperature", "1.5")
    page.select_option("#poem-rhyme", "")
    page.locator("#poem-form .primary").click()
    lines(page)
    page.locator(".poem-choices button").last.click()
    page.wait_for_function("() => /pick=[12]/.test(location.hash)")
    shown = lines(page)
    assert shown[0] == "春江花月夜，" and len(shown) == 4 and keeps(shown, 5)
    hash_ = page.evaluate("location.hash")
    link = page.evaluate("import('/common.js').then(({ linkOf }) => linkOf(location.hash))")
    for target in (hash_, "?" + link.partition("?")[2]):
        fresh = open_options(open_page(target, **VIEW))
        assert lines(fresh) == shown
        assert fresh.input_value("#poem-begin") == "春江花月夜，" and fresh.input_value("#poem-rhyme") == "" and fresh.input_value("#poem-temperature") == "1.5"
        for one in (page, fresh):
            one.mouse.move(0, 0)
            one.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
        assert fresh.locator("#poem").screenshot() == page.locator("#poem").screenshot()


def test_the_visitor_chooses_between_poems(open_page):
    page = open_page("#poems", **VIEW)
    page.click("#poem-form .primary")
    first = lines(page)
    choices = page.locator(".poem-choices button")
    expect(choices).to_have_count(3)
    assert choices.first.inner_text() == first[0][:-1]
    choices.nth(1).click()
    expect(choices.nth(1)).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#poem p").first).to_contain_text(choices.nth(1).inner_text())
    assert lines(page) != first


def test_a_ready_acrostic_is_one_click(open_page):
    page = open_page("#poems", **VIEW)
    page.click("text=春夏秋冬")
    assert keeps(lines(page), 5, "春夏秋冬")


def test_a_ready_acrostic_is_pressed_until_it_is_given_up(open_page):
    """Also while the options are folded away: another title keeps the acrostic, and the page says so."""
    page = open_page("#poems", **VIEW)
    acrostic, title = page.locator("[data-acrostic=春夏秋冬]"), page.locator("[data-title=江上]")
    expect(acrostic).to_have_attribute("aria-pressed", "false")
    for button, pressed, prompt, asked in (
        (acrostic, "true", "唐《秋夜》", "春夏秋冬"), (title, "true", "唐《江上》", "春夏秋冬"), (acrostic, "false", "唐《江上》", None)):
        with page.expect_request("**/v1/completions") as sent:
            button.click()
        body = sent.value.post_data_json
        assert (body["prompt"], body.get("acrostic")) == (prompt, asked)
        expect(button).to_have_attribute("aria-pressed", pressed)


@pytest.mark.parametrize("typed, button, title", [
    ("秋夜", "[data-title=春雨]", "春雨"), ("rain", "[data-title=春雨]", "春雨"), ("rain", "[data-acrostic=春夏秋冬]", "秋夜")])
def test_what_is_ready_is_one_click(open_page, typed, button, title):
    """For visitors who cannot type Chinese, and have tried."""
    page = open_page("#poems", **VIEW)
    page.fill("#poem-title", typed)
    page.keyboard.press("Enter")
    expect(page.locator("#poem-error" if typed == "rain" else "#poem")).not_to_be_empty()
    expect(page.locator("[data-title]").first).to_have_text(re.compile("春雨.*spring rain", re.S))
    page.click(button)
    expect(page.locator("#poem h3")).to_have_text(title)
    assert keeps(lines(page), 5)
    expect(page.locator("#poem-title")).to_have_value(title)


def test_readers_of_english_are_told_each_character(serve, open_page):
    """The dictionary has a meaning for every character of the shipped poet's lines, and every ready acrostic a translation."""
    page = open_page("#poems", at=serve(ROOT / "weights"), **VIEW)
    expect(page.locator("#poem-again")).to_be_hidden()
    expect(page.locator("[data-acrostic]").first).to_have_text(re.compile("春夏秋冬.*the four seasons", re.S))
    page.click("text=春夏秋冬")
    shown = lines(page)
    told = page.locator("#poems .word-by-word")
    expect(told).to_have_text(re.compile("^spring · .*\nsummer · .*\nautumn · .*\nwinter · ", re.S), use_inner_text=True)
    assert [line.count("·") for line in told.inner_text().split("\n")] == [len(line) - 2 for line in shown]
    page.click("[data-choose=zh]")
    expect(told).to_be_hidden()


def test_the_dictionary_has_the_frequent_characters_of_poems():
    """By themselves, or by the form that the model writes in place of an old one."""
    by_sound = json.loads((ROOT / "web/glosses.json").read_text(encoding="utf-8"))
    usual = dict(by_sound.pop(""))
    told = {entry[0] for entries in by_sound.values() for entry in entries if len(entry) > 1}
    vocabulary = json.loads((ROOT / "weights/poem/tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    frequent = [c for c in vocabulary if re.fullmatch("[㐀-鿿]", c)][:3000]
    assert [c for c in frequent if usual.get(c, c) not in told] == []


def asked_by(page):
    """The bodies of the requests for poems from now on."""
    sent = []
    page.on("request", lambda request: sent.append(request.post_data_json) if request.url.endswith("/v1/completions") else None)
    return sent


def test_a_tune_has_its_own_lines_and_no_acrostic(open_page):
    page = open_options(open_page("#poems", **VIEW))
    sent = asked_by(page)
    assert page.locator("#poem-form-of optgroup option").count() == 15
    page.fill("#poem-acrostic", "春夏秋冬")
    page.select_option("#poem-pattern", "level")
    page.select_option("#poem-form-of", "忆江南")
    for field in ("kind", "pattern", "acrostic"):
        expect(page.locator(f"#poem-{field}")).to_be_disabled()
    page.fill("#poem-title", "春夜")
    page.keyboard.press("Enter")
    shown = lines(page)
    assert [len(line) - 1 for line in shown] == [3, 5, 7, 7, 5]
    (body,) = sent
    assert body["form"] == "忆江南" and body["rhyme"] is True and body["prompt"] == "词《忆江南·春夜》"
    assert not {"acrostic", "pattern"} & body.keys()
    expect(page.locator("#poem h3")).to_have_text("春夜")
    fresh = open_options(open_page(page.evaluate("location.hash"), **VIEW))
    assert lines(fresh) == shown
    assert fresh.input_value("#poem-form-of") == "忆江南" and fresh.input_value("#poem-title") == "春夜"


def test_a_pattern_of_tones_is_asked_for_and_linked(open_page):
    page = open_options(open_page("#poems", **VIEW))
    sent = asked_by(page)
    page.select_option("#poem-pattern", "oblique")
    page.locator("#poem-form .primary").click()
    shown = lines(page)
    (body,) = sent
    assert body["pattern"] == "oblique" and body["form"] == "5x4" and keeps(shown, 5)
    hash_ = page.evaluate("location.hash")
    assert "pattern=oblique" in hash_
    fresh = open_options(open_page(hash_, **VIEW))
    assert lines(fresh) == shown and fresh.input_value("#poem-pattern") == "oblique"
    fresh.select_option("#poem-pattern", "")
    fresh.locator("#poem-form .primary").click()
    fresh.wait_for_function("() => !location.hash.includes('pattern')")


@pytest.mark.parametrize("locale, words", [("en-US", "title needs Chinese characters"), ("zh-CN", "题目要有汉字")])
def test_a_title_without_chinese_is_refused(open_page, locale, words):
    page = open_page("#poems", locale=locale, **VIEW)
    page.fill("#poem-title", "autumn 🍂")
    page.keyboard.press("Enter")
    expect(page.locator("#poem-error")).to_contain_text(words)
    page.fill("#poem-title", "")
    page.keyboard.press("Enter")
    assert keeps(lines(page), 5)
    expect(page.locator("#poem-title")).to_have_value("秋夜")


def test_an_older_link_is_still_its_poem(open_page, origin):
    page = open_page("#poems&kind=唐&title=秋夜&form=5x4&rhyme=1&acrostic=&begin=&temperature=0.8&seed=5", **VIEW)
    body = {"model": "poem", "prompt": "唐《秋夜》", "form": "5x4", "rhyme": True, "temperature": 0.8, "seed": 5}
    reply = page.request.post(f"{origin}/v1/completions", data=body).json()
    assert "".join(lines(page)) == reply["choices"][0]["text"]


def test_a_poem_is_saved(open_page):
    page = open_options(open_page("#poems", **VIEW))
    expect(page.locator("#poem-save")).to_be_disabled()
    sizes = []
    for form in ("5x4", "7x8", ""):
        page.select_option("#poem-form-of", form)
        page.fill("#poem-seed", "3")
        page.locator("#poem-form .primary").click()
        page.wait_for_function("(form) => location.hash.includes(`&form=${form}&`)", arg=form)  # written at the end
        columns = lines(page)
        if form == "":  # as long as the model makes it, in columns of 12 characters
            text = page.locator("#poem p").evaluate("line => line.textContent")
            columns = [text[i : i + 12] for i in range(0, len(text), 12)]
        name, picture = saved(page, "#poem-save")
        assert name == "linnet-秋夜.png" and sum(n for colour, n in picture["colours"].items() if colour == "255,223,145") > 2000
        sizes.append((len(columns), max(map(len, columns)), picture["width"], picture["height"]))
    assert [size[:2] for size in sizes[:2]] == [(4, 6), (8, 8)]  # with the marks
    n, longest, wide, high = sizes[0]
    for size in sizes[1:]:
        assert size[2] - wide == (size[0] - n) * 112
        assert size[3] - high == pytest.approx((size[1] - longest) * 86.4, abs=1)


def test_without_a_form_there_is_no_acrostic(open_page):
    page = open_options(open_page("#poems", **VIEW))
    page.fill("#poem-acrostic", "春夏秋冬")
    page.select_option("#poem-form-of", "")
    expect(page.locator("#poem-acrostic")).to_be_disabled()
    page.fill("#poem-seed", "8")
    page.locator("#poem-form .primary").click()
    shown = lines(page)
    assert len(shown) == 1 and shown[0] and not keeps(shown, 5)
    expect(page.locator("#poem")).to_have_class(re.compile("free"))


@pytest.mark.parametrize("locale, field, value, words", [
    ("en-US", "#poem-acrostic", "春夏秋", "An acrostic has 4 Chinese characters"),
    ("zh-CN", "#poem-acrostic", "春夏秋龘", "藏头要 4 个模型认得的汉字"),
    ("en-US", "#poem-begin", "春江，", "The beginning breaks the form"),
    ("zh-CN", "#poem-begin", "春江，", "起句不合格式"),
    ("zh-CN", "#poem-temperature", "11", "温度要在 0 到 2 之间"),
])
def test_what_cannot_be_kept_is_explained(open_page, locale, field, value, words):
    page = open_options(open_page("#poems", allow="status of 400", locale=locale, **VIEW))
    page.fill(field, value)
    page.keyboard.press("Enter")
    expect(page.locator("#poem-error")).to_contain_text(words)
    expect(page.locator("#poem")).to_be_hidden()
    page.fill(field, page.locator(field).evaluate("(input) => input.defaultValue"))
    page.keyboard.press("Enter")
    assert keeps(lines(page), 5)
    expect(page.locator("#poem-error")).to_be_empty()


def test_by_keyboard_alone(open_page):
    page = open_options(open_page("#poems", locale="zh-CN", **VIEW))
    expect(page.locator("#poem-kind option").first).to_have_text("唐诗")
    page.focus("#poems-tab")
    for place in ("#poem-title", "#poem-kind", "#poem-form-of", "#poem-acrostic"):
        for _ in range(12):
            page.keyboard.press("Tab")
            if page.evaluate("(place) => document.activeElement.matches(place)", place):
                break
        expect(page.locator(place)).to_be_focused()
        if place == "#poem-form-of":
            page.keyboard.press("ArrowDown")
    page.keyboard.type("山水天地")
    page.keyboard.press("Enter")
    assert keeps(lines(page), 7, "山水天地")
    page.locator("#poem-seed").focus()
    page.keyboard.press("Tab")
    expect(page.locator("#poem")).to_be_focused()


def test_a_poem_in_the_making_is_announced(open_page):
    """A refused title leaves nothing to repeat, copy or save."""
    page = open_page("#poems", **VIEW)
    held = []
    page.route("**/v1/completions", lambda route: held.append(route))
    page.locator("#poem-form .primary").click()
    expect(page.locator("#poem-busy")).to_have_text("Writing …")
    page.wait_for_function("() => document.querySelector('#poem-again').closest('p').hidden")
    while not held:
        drawn(page)
    held[0].continue_()
    expect(page.locator("#poem-again")).to_be_visible()
    expect(page.locator("#poem-busy")).to_be_empty()
    page.fill("#poem-title", "Love letter")
    page.locator("#poem-form .primary").click()
    expect(page.locator("#poem-error")).to_contain_text("A title needs Chinese characters")
    expect(page.locator("#poem-busy")).to_be_empty()
    for button in ("again", "copy", "save"):
        expect(page.locator(f"#poem-{button}")).to_be_hidden()


def test_it_is_offered_only_where_a_model_writes_poems(serve, open_page, tmp_path):
    expect(open_page(**VIEW).locator("#poems-tab")).to_be_visible()
    image_model.write(tmp_path / "one" / "mnist", 28, 28)
    address = serve(tmp_path / "one")
    page = open_page("#images", at=address, **VIEW)
    expect(page.locator(".state-size").first).not_to_be_empty()
    expect(page.locator("#poems-tab")).to_be_hidden()
    page = open_page("#poems", at=address, **VIEW)
    page.locator("#poem-form .primary").click()
    expect(page.locator("#poem-error")).to_have_text("This server has no model of poems.")


def test_the_first_line_has_the_size_of_the_tabs_own_state(open_page, origin):
    page = open_page("#poems", **VIEW)
    models = page.request.get(f"{origin}/v1/models").json()["data"]
    sizes = {m["meta"]["task"]: round(m["meta"]["state_bytes"] / 1024) for m in models if m["id"] in ("couplet", "poem")}
    assert len(set(sizes.values())) == 2
    expect(page.locator(".claim .en .state-size")).to_have_text(f" ({sizes['poem']} KiB here)")
    page.click("#couplets-tab")
    expect(page.locator(".claim .en .state-size")).to_have_text(f" ({sizes['couplet']} KiB here)")


def test_without_a_table_nothing_rhymes(serve, open_page, tmp_path):
    (poem_model.write(tmp_path / "poem") / "rhymes.txt").unlink()
    address = serve(tmp_path)
    page = open_page("#poems&title=春&form=5x4&rhyme=1&seed=4", at=address, **VIEW)
    assert keeps(lines(page), 5)
    expect(page.locator("#poem-rhyme")).to_be_disabled()


def test_where_only_poems_are_served_they_come_first(serve, open_page, tmp_path):
    poem_model.write(tmp_path / "poem")
    address = serve(tmp_path)
    page = open_page(at=address, **VIEW)
    expect(page.locator("#poems-tab")).to_have_attribute("aria-selected", "true")
