"""The page with JavaScript: typing, streaming, choosing, errors, links, languages, narrow screens."""

import email.utils
import json
import re
import time

import pytest
from playwright.sync_api import expect

from conftest import ROOT
from watching import drawn, emptied

UPPER = "海上明月"
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
REFUSED = r"status of [45]\d\d"  # Chromium reports every refused request as a console error


def text_of(page, selector):
    return page.locator(selector).inner_text().replace("\n", "")


def lower_line(page):
    return page.locator(".scroll.lower").text_content()


def ask(page, line):
    page.fill("#upper", line)
    page.press("#upper", "Enter")


def finished(page):
    """Waits until the page has all candidates and the hung scroll is written; returns their texts."""
    drawn(page)
    page.wait_for_function(
        """() => {
            const hung = document.querySelector('[aria-selected="true"] .line');
            const facts = document.querySelector('.answers:not(.idle) .facts');
            const scrolls = [...document.querySelectorAll('.scroll')];  // an answer to a lower line hangs on the right
            return hung && facts.textContent && scrolls.some((scroll) => scroll.textContent === hung.textContent);
        }"""
    )
    return page.locator(".candidates .line").all_text_contents()


def test_characters_arrive_one_by_one(open_page):
    page = open_page(reduced_motion="no-preference")
    page.evaluate(
        """() => {
            window.seen = [];
            const lower = document.querySelector('.scroll.lower');
            const note = () => { if (seen[seen.length - 1] !== lower.textContent) seen.push(lower.textContent); };
            new MutationObserver(note).observe(lower, { childList: true, subtree: true, characterData: true });
        }"""
    )
    upper = "一盏青灯听夜雨"
    ask(page, upper)
    answers = finished(page)
    assert page.locator(".scroll.upper").text_content() == upper
    assert len(lower_line(page)) == len(upper)
    assert lower_line(page) in answers
    partial = [text for text in page.evaluate("seen") if 0 < len(text) < len(upper)]
    assert len(partial) >= 3
    assert any(len(b) == len(a) + 1 and b.startswith(a) for a, b in zip(partial, partial[1:]))


def test_the_server_streams_an_event_a_character(open_page):
    page = open_page()
    request = {"prompt": UPPER, "n": 1, "seed": 1, "temperature": 0.8, "stream": True}
    texts = page.evaluate(
        """async (request) => {
            const { parseSse } = await import('/common.js');
            const models = await (await fetch('/v1/models')).json();
            const body = JSON.stringify({ ...request, model: models.data[0].id });
            const headers = { 'Content-Type': 'application/json' };
            const answer = await fetch('/v1/completions', { method: 'POST', headers, body });
            const { events, rest } = parseSse(await answer.text());
            if (rest !== '' || events.pop() !== '[DONE]') throw new Error('no proper end');
            return events.flatMap((e) => JSON.parse(e).choices.map((c) => c.text));
        }""",
        request,
    )
    assert [len(text) for text in texts if text] == [1] * len(UPPER)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_event_stream_cut_anywhere(open_page, size):
    stream = 'data: {"a":"月"}\n\n: ping\n\ndata:b\r\ndata: c\r\n\r\ndata: [DONE]\n\ndata: rest'
    events, rest = open_page().evaluate(
        """async ([stream, size]) => {
            const { parseSse } = await import('/common.js');
            const all = [];
            let rest = '';
            for (let i = 0; i < stream.length; i += size) {
                const step = parseSse(rest + stream.slice(i, i + size));
                all.push(...step.events);
                rest = step.rest;
            }
            return [all, rest];
        }""",
        [stream, size],
    )
    assert events == ['{"a":"月"}', "b\nc", "[DONE]"]
    assert rest == "data: rest"


def test_typing_writes_the_upper_scroll(open_page):
    page = open_page()
    page.locator("#upper").press_sequentially("春风")
    expect(page.locator(".scroll.upper")).to_have_text("春风")
    expect(page.locator(".scroll.lower")).to_have_text("")


def test_candidates_are_chosen_with_the_keyboard(open_page):
    page = open_page()
    ask(page, UPPER)
    answers = finished(page)
    assert len(answers) >= 2
    page.press("#upper", "ArrowDown")  # from the input into the list
    expect(page.locator(".candidates [aria-selected=true]")).to_be_focused()
    lower = page.locator(".scroll.lower")
    for key, answer in [("ArrowDown", answers[1]), ("End", answers[-1]), ("Home", answers[0])]:
        page.keyboard.press(key)
        expect(lower).to_have_text(answer)
        expect(page.locator(".candidates [aria-selected=true] .line")).to_have_text(answer)
    with emptied(page, ".scroll.lower"):
        page.keyboard.press("Enter")  # writes the same line once more
    expect(lower).to_have_text(answers[0])


def test_best_candidate_first(open_page):
    """A temperature says how lines are drawn: then the likeliest comes first."""
    page = open_page()
    page.click("summary")
    page.fill("#temperature", "0.8")
    ask(page, UPPER)
    answers = finished(page)
    scores = [float(s.replace("−", "-")) for s in page.locator(".score").all_text_contents()]
    assert len(scores) == len(answers) == len(set(answers))
    assert scores == sorted(scores, reverse=True)
    assert lower_line(page) == answers[0]


def test_everything_is_reached_with_tab(open_page):
    page = open_page()
    ask(page, UPPER)
    finished(page)
    page.locator("body").evaluate("(body) => { body.tabIndex = -1; body.focus(); }")
    reached = set()
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.localName"))
    assert {"button", "upper", "submit", "summary", "a", "li", "again"} <= reached


def test_emoji_is_refused_in_words(open_page):
    page = open_page(allow=REFUSED)
    ask(page, "海上😀月")
    error = page.locator("#error")
    expect(error).to_contain_text("😀")
    expect(error).to_contain_text("neither a Chinese character nor punctuation")
    expect(page.locator("#upper")).to_have_attribute("aria-invalid", "true")
    ask(page, UPPER)  # the page continues
    expect(error).to_be_hidden()
    finished(page)


@pytest.mark.parametrize("line, words", [
    ("山" * 33, "33"), ("山" * 5000, "5000"), ("2026年快乐", "Write “二〇二六” instead of “2026”"),
    ("祝贺Linnet", "“Linnet” has Latin letters"), ("The moon over the sea", "“The moon over the sea” has Latin letters"),
])
def test_refused_lines(open_page, line, words):
    page = open_page(allow=REFUSED)
    ask(page, line)
    expect(page.locator("#error")).to_contain_text(words)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator(".scroll.upper").evaluate("(e) => e.scrollWidth <= e.clientWidth + 1")


def test_an_empty_field_answers_its_placeholder(open_page):
    page = open_page()
    ask(page, "")
    finished(page)
    expect(page.locator("#upper")).to_have_value(UPPER)


# An answer of a server that chooses lines from a pool.
POOL = {
    "seed": 7, "prompt_tones": "仄仄平平，仄", "choices": [
        {"index": 0, "text": "天边归雁，一", "finish_reason": "stop", "mean_logprob": -2.5, "tones": "平平中仄，平"},
        {"index": 1, "text": "云间白鹤，天", "finish_reason": "stop", "mean_logprob": -1.5, "tones": "平平仄仄，平"},
    ],
}


def answer_with(page, **fields):
    """The server's answers are these; returns the list of the requests."""
    sent = []

    def fulfill(route):
        sent.append(route.request.post_data_json)
        route.fulfill(json={**POOL, **fields})

    page.route("**/v1/completions", fulfill)
    return sent


def test_the_servers_order_and_its_tones_are_shown(open_page):
    page = open_page()
    sent = answer_with(page)
    ask(page, "海上明月，山")
    assert finished(page) == ["天边归雁，一", "云间白鹤，天"]
    assert [(body["n"], "temperature" in body, "stream" in body) for body in sent] == [(5, False, False)]
    tones = "(all) => all.map((e) => e.dataset.tone ?? '')"
    assert page.locator(".scroll.upper .ink").evaluate_all(tones) == ["oblique", "oblique", "level", "level", "", "oblique"]
    assert page.locator(".candidates li:first-child .ink").evaluate_all(tones) == ["level", "level", "both", "oblique", "", "level"]
    expect(page.locator(".tone-key")).to_be_visible()
    page.unroute_all()
    ask(page, UPPER)
    finished(page)


def test_a_lower_line_hangs_on_the_left(open_page):
    page = open_page()
    answer_with(page, answered="upper")
    ask(page, "海上明月，山")
    expect(page.locator(".scroll.upper")).to_have_text("天边归雁，一")
    expect(page.locator(".scroll.lower")).to_have_text("海上明月，山")
    expect(page.locator("#candidates-title")).to_have_text("Upper lines")
    expect(page.locator(".read-as")).to_contain_text("so it is a lower line")
    page.click("[data-choose=zh]")
    expect(page.locator("[data-rule=shared]")).to_have_text("不用你的字", use_inner_text=True)  # of either scroll


def test_the_order_of_the_lines_is_explained(open_page):
    """It is not that of the numbers alone."""
    page = open_page()
    answer_with(page)
    ask(page, "海上明月，山")
    finished(page)
    expect(page.locator("#keys")).to_contain_text("The order also counts faults", use_inner_text=True)


def test_the_news_of_a_tab_stays_in_it(open_page):
    page = open_page()
    ask(page, UPPER)
    finished(page)
    expect(page.locator("#live")).not_to_be_empty()
    page.click("#how-tab")
    page.click("#race-tab")
    expect(page.locator("#live")).to_be_empty()


# The next answer waits for release().
HELD_ANSWER = """() => {
    const real = window.fetch;
    window.fetch = async (url, options) => {
        window.fetch = real;
        const body = await (await real(url, options)).json();
        await new Promise((done) => { window.release = done; });
        return { ok: true, json: () => body };
    };
}"""


def test_an_answer_to_a_tab_that_was_left_is_not_said(open_page):
    page = open_page()
    page.evaluate(HELD_ANSWER)
    ask(page, UPPER)
    page.wait_for_function("() => window.release")
    page.click("#race-tab")
    page.evaluate("() => { window.release(); return new Promise(requestAnimationFrame); }")
    expect(page.locator("#live")).to_be_empty()
    page.click("#couplets-tab")
    finished(page)


def test_a_character_shows_its_partner_sound_and_meaning(open_page):
    """By pointing at the paper or at a candidate, and by keyboard in the row of pairs."""
    page = open_page()
    answer_with(page)
    ask(page, "海上明月，山")
    finished(page)
    told = page.locator(".pointed-at")
    expect(told).to_contain_text("Point at a character")
    expect(page.locator(".word-by-word")).to_have_text(re.compile("^Word by word: sky · edge · .* · wild goose · one$"))
    page.hover(".scroll.upper .ink:nth-child(4)")
    expect(told).to_contain_text(re.compile("月 yuè moon.* ⇄ 雁 yàn wild goose"))
    expect(page.locator(".scroll.lower .pointed")).to_have_text("雁")
    page.hover(".candidates li:nth-child(2) .ink:nth-child(3)")
    expect(told).to_contain_text(re.compile("明 míng bright.* ⇄ 白 bái white"))
    expect(page.locator(".candidates .pointed")).to_have_text("白")
    expect(page.locator(".pairs li")).to_have_count(5)  # a comma has no partner
    page.focus(".pairs li:first-child button")
    expect(told).to_contain_text(re.compile("海 hǎi sea.* ⇄ 天 tiān"))
    page.keyboard.press("Tab")
    expect(told).to_contain_text(re.compile("上 shàng .* ⇄ 边 biān"))


def test_fewer_lines_than_were_asked_for_are_explained(open_page):
    page = open_page()
    choice = POOL["choices"][0]
    answer_with(page, choices=[choice, {**choice, "index": 1}])
    ask(page, "海上明月，山")
    finished(page)
    expect(page.locator(".answers .facts")).to_contain_text("2 lines were written, 1 distinct")


@pytest.mark.parametrize("line, read", [(" 海上\u3000明 月 ", "海上明月"), ("風輕雲淡", "風輕雲淡")])
def test_spaces_and_traditional_characters_are_taken(open_page, line, read):
    page = open_page()
    ask(page, line)
    finished(page)
    assert page.locator(".scroll.upper").text_content() == read and len(lower_line(page)) == 4
    note = "Traditional characters were read as their simplified forms, and the answers are in simplified characters." if "雲" in line else ""
    expect(page.locator(".read-as")).to_have_text(note)


def test_errors_are_in_the_visitors_language(open_page):
    page = open_page(allow=REFUSED, locale="zh-CN")
    page.click("summary")
    page.fill("#temperature", "-1")
    ask(page, UPPER)
    expect(page.locator("#error")).to_have_text("温度要在 0 到 2 之间。")
    page.fill("#temperature", "")
    body = json.dumps({"error": {"message": "the device is gone", "type": "", "param": None, "code": ""}})

    def refuse(route):
        page.wait_for_function("() => window.emptied")  # or no frame may come between the two errors
        route.fulfill(status=status, body=body)

    page.route("**/v1/completions", refuse)
    for status, words in ((500, "服务器出了差错（HTTP 500）。"), (409, "请求没有被接受（HTTP 409）。")):
        with emptied(page, "#error"):
            ask(page, UPPER)
        expect(page.locator("#error")).to_have_text(words)


def test_rules_are_shown_as_they_are_kept(open_page):
    page = open_page()
    expect(page.locator(".rules .kept, .rules .broken")).to_have_count(0)
    ask(page, "雪落梅花梅落雪")
    finished(page)
    expect(page.locator(".rules .kept")).to_have_count(4)
    assert page.evaluate("getComputedStyle(document.querySelector('.rules li'), '::before').content") == '"✓ "'


@pytest.mark.parametrize("upper, lower, broken", [
    ("海上明月", "天涯比邻", []),
    ("雪落梅花梅落雪", "风吹柳絮柳吹风", []),
    ("山远云低，归舟一叶", "天高地迥，去雁几行", []),
    ("海上明月", "天涯比", ["length", "repetition", "punctuation"]),
    ("海上明月", "天天比邻", ["repetition"]),
    ("山远，云低", "天高地迥，", ["punctuation"]),
    ("海上明月", "天上比邻", ["shared"]),
])
def test_rules(open_page, upper, lower, broken):
    kept = open_page().evaluate(
        "([upper, lower]) => import('/rules.js').then(({ rulesKept }) => rulesKept(upper, lower))", [upper, lower])
    assert {rule for rule, holds in kept.items() if not holds} == set(broken)


def test_examples_are_explained_to_who_reads_no_chinese(open_page):
    page = open_page()
    example = page.locator(".examples li:first-child a")
    expect(example).to_contain_text("hǎi shàng míng yuè")
    expect(example).to_contain_text("A bright moon over the sea")
    expect(page.locator(".what.en")).to_contain_text("duìlián")
    page.click("text=中文")
    expect(example.locator(".gloss")).to_be_hidden()
    expect(page.locator(".what.zh")).to_be_visible()


def test_refused_field_is_named(open_page):
    page = open_page(allow=REFUSED)
    page.click("summary")
    page.fill("#temperature", "-1")
    ask(page, UPPER)
    expect(page.locator("#error")).to_contain_text("Temperature")


@pytest.mark.parametrize("locale, field, value, words", [
    ("en-US", "n", "2.5", "Candidates was refused: write a whole number from 1 to 8"), ("en-US", "n", "9", "a whole number from 1 to 8"),
    ("zh-CN", "n", "2.5", "下联句数要在 1 到 8 之间，写整数。"), ("en-US", "seed", "1.5", "Seed was refused: write a whole number from 0 to"),
    ("en-US", "temperature", "2.01", "Temperature was refused: write a number from 0 to 2"),
])
def test_whole_numbers_are_asked_for_where_they_are_needed(open_page, locale, field, value, words):
    page = open_page(locale=locale)
    page.click("summary")
    page.fill(f"#{field}", value)
    ask(page, UPPER)
    expect(page.locator("#error")).to_contain_text(words)


def test_any_temperature_within_the_range_is_taken(open_page):
    """The step of the arrows is no rule: 0.33 lies between two steps."""
    page = open_page()
    page.click("summary")
    page.fill("#temperature", "0.333")
    ask(page, UPPER)
    finished(page)
    assert "temperature=0.333" in page.evaluate("location.hash")
    page.press("#temperature", "ArrowUp")
    expect(page.locator("#temperature")).to_have_value("0.35")
    for tab, field, send, error in (("images", "#image-temperature", "#paint", "#image-error"),
                                    ("poems", "#poem-temperature", "#poem-form .primary", "#poem-error")):
        page = open_page(f"#{tab}")
        if tab == "poems":
            page.locator("#poem-form summary").click()
        page.fill(field, "0.333")
        with page.expect_request(lambda request: (request.post_data_json or {}).get("temperature") == 0.333):
            page.click(send)
        expect(page.locator(error)).to_be_empty()


def test_a_reason_is_told_in_every_language(open_page):
    page = open_page(allow=REFUSED, locale="zh-CN")
    body = json.dumps({"error": {"message": "the seed is taken", "type": "", "param": "seed", "code": ""}})
    page.route("**/v1/completions", lambda route: route.fulfill(status=400, body=body))
    ask(page, UPPER)
    expect(page.locator("#error")).to_have_text("种子不合要求：the seed is taken")


@pytest.mark.parametrize("date, told", [("Wed, 21 Oct 2015 07:28:00 GMT", r"in 1 s\."), (None, r"in 3[56]\d\d s\."), ("soon", r"in 1 s\.")])
def test_a_date_of_another_try_is_told_in_seconds(open_page, date, told):
    page = open_page(allow=REFUSED)
    date = date or email.utils.formatdate(time.time() + 3600, usegmt=True)
    page.route("**/v1/completions", lambda route: route.fulfill(status=503, headers={"Retry-After": date}, body="{}"))
    ask(page, UPPER)
    expect(page.locator("#error")).to_have_text(re.compile(f"Too many visitors at this moment. Try again {told}"))


@pytest.mark.parametrize("link, ready, kept", [
    (f"#{UPPER}&n=3&seed=abc&pick=-1", "#save:enabled", r"&n=3&seed=\d+$"),
    (f"#{UPPER}&n=3&seed=99999999999999999999", "#save:enabled", r"&n=3&seed=\d{1,16}$"),
    ("#images&n=1&seed=5&class=x&pick=-1", "#image-save:enabled", r"^#images&n=1&temperature=1&seed=5$"),
    ("#poems&title=秋夜&kind=唐&form=5x4&seed=abc&pick=-1", "#poem-save:enabled", r"&seed=\d+&pick=0$"),
    ("#poems&title=秋夜&kind=唐&form=5x4&seed=5&pick=x", "#poem-save:enabled", r"&seed=5&pick=0$"),
    ("#how&line=春风&seed=1&layer=99&head=x&step=99", ".steps li:nth-child(4)", r"&layer=7&head=0&step=3$"),
])
def test_a_damaged_link_shows_something(open_page, link, ready, kept):
    """A field that is no whole number is as good as absent."""
    page = open_page(link, reduced_motion="reduce")
    expect(page.locator(ready)).to_be_visible()
    page.wait_for_function("(kept) => new RegExp(kept).test(location.hash)", arg=kept)
    assert "NaN" not in page.locator("main").inner_text()


def test_waiting_is_told(open_page):
    """To screen readers, too; they hear no empty line when the given one was edited meanwhile."""
    page, held = open_page(), []
    page.route("**/v1/completions", lambda route: held.append(route))
    ask(page, UPPER)
    expect(page.locator(".answers .facts")).to_have_text("Answering …")
    expect(page.locator("#live")).to_have_text("Answering …")
    page.fill("#upper", "春风")
    while not held:
        drawn(page)
    held[0].continue_()
    expect(page.locator("#live")).to_be_empty()
    expect(page.locator(".answers .facts")).to_be_empty()
    page.fill("#upper", UPPER)
    finished(page)


FOCUS = [("poems", "#poem-form .primary", "#poem-again", "**/v1/completions"), ("strip&turns=0.5&digits=1", None, "#strip-fork", "**/v1/images/generations"),
         ("race", "#race-go", "#race-go", "**/v1/images/generations"), ("images", "#paint", "#stop", "**/v1/images/generations")]


@pytest.mark.parametrize("tab, first, button, path", FOCUS)
def test_a_button_that_goes_keeps_the_focus_near(open_page, tab, first, button, path):
    """A button that is pressed by key and then hidden or disabled gives the focus to another one, and has it back later."""
    page, held, holds = open_page(f"#{tab}"), [], [True]
    tab = tab.split("&")[0]

    def take(route):
        if holds:
            held.append(route)
        else:
            route.continue_()

    if tab in ("race", "images"):
        page.route(path, take)
    if first:
        page.click(first)
    expect(page.locator(button)).to_be_enabled(timeout=120_000)
    expect(page.locator(button)).to_be_visible()
    if tab == "strip":
        expect(page.locator("#strip-go")).to_have_text("Go on", timeout=120_000)  # its digit is painted
    if tab in ("poems", "strip"):
        page.route(path, take)
    page.focus(button)
    page.keyboard.press("Enter")
    drawn(page)
    drawn(page)
    expect(page.locator(button)).not_to_be_focused()
    assert page.evaluate(f"document.activeElement.matches('#{tab} button, #{tab}-tab')")
    if tab == "images":
        return  # there is nothing to stop any more
    holds.clear()
    for route in held:
        route.continue_()
    expect(page.locator(button)).to_be_focused()


def test_unreachable_server_is_told(open_page):
    page = open_page(allow="ERR_FAILED")
    page.route("**/v1/completions", lambda route: route.abort())
    ask(page, UPPER)
    expect(page.locator("#error")).to_contain_text("cannot be reached")


def test_busy_server_is_told(open_page):
    page = open_page(allow=REFUSED)
    body = json.dumps({"error": {"message": "queue full", "type": "", "param": None, "code": ""}})
    headers = {"Retry-After": "7"}
    page.route("**/v1/completions", lambda r: r.fulfill(status=429, headers=headers, body=body))
    ask(page, UPPER)
    expect(page.locator("#error")).to_contain_text("7 s")


def test_a_link_is_a_couplet(open_page):
    page = open_page()
    page.click("summary")
    page.fill("#banner", "月满人间")
    page.fill("#n", "3")
    ask(page, UPPER)
    answers = finished(page)
    page.press("#upper", "ArrowDown")
    page.keyboard.press("End")
    expect(page.locator(".scroll.lower")).to_have_text(answers[-1])
    link = page.evaluate("location.hash")
    assert "seed=" in link
    other = open_page(link)
    assert finished(other) == answers
    expect(other.locator(".scroll.lower")).to_have_text(answers[-1])
    expect(other.locator(".banner")).to_have_text("月满人间")
    expect(other.locator("#upper")).to_have_value(UPPER)


def test_a_caption_is_suggested(open_page):
    """Four characters that the couplet has not, another at every click, in the link, and gone with the couplet."""
    page = open_page("#海上明月共潮生&seed=5")
    (lower,) = finished(page)[:1]
    banner = page.locator(".banner")
    seen = []
    for _ in range(3):
        page.click("#suggest")
        page.wait_for_function("old => document.querySelector('.banner').textContent !== old", arg=seen[-1] if seen else "")
        seen.append(banner.text_content())
    assert len(set(seen)) == 3
    for line in seen:
        assert len(set(line)) == len(line) == 4 and not set(line) & set("海上明月共潮生" + lower)
    other = open_page(page.evaluate("location.hash"))
    finished(other)
    expect(other.locator(".banner")).to_have_text(seen[-1])
    ask(page, "春风")
    finished(page)
    expect(banner).to_be_empty()


@pytest.mark.parametrize("lines, captions", [
    (("佳偶天成日", "良缘永结时"), "百年好合 花好月圆"),
    (("程序员写代码", "设计师绘蓝图"), "业精于勤 天道酬勤 学海无涯 温故知新"),
    (("一盏青灯听夜雨", "半窗明月照秋山"), "诗情画意 琴心剑胆 心旷神怡 鸟语花香"),
    (("爆竹声中一岁除", "春风送暖入屠苏"), "欢度佳节 人寿年丰 瑞雪丰年 辞旧迎新 福满家园"),
])
def test_a_caption_has_the_couplets_theme(serve, open_page, lines, captions):
    page = open_page(at=serve(f"{ROOT}/weights"))
    suggest = "(lines) => import('/banner.js').then(({ suggestBanners }) => suggestBanners('couplet', ...lines, 7))"
    assert page.evaluate(suggest, lines)[0] in captions.split()


def test_no_caption_for_a_line_that_is_too_short(open_page):
    page = open_page("#月&seed=5")
    finished(page)
    page.click("#suggest")
    expect(page.locator("#error")).to_have_text("No caption was found for this couplet.")


def test_a_link_is_only_text(open_page):
    page = open_page("#<img src=x onerror=alert(1)>&banner=<b>x</b>", allow=REFUSED)
    expect(page.locator("#error")).not_to_be_empty()
    assert page.locator("#result img, #result b, #error img").count() == 0
    open_page("#%E6%9C")  # half a character: ignored


def seed_of(page):
    return re.search(r"seed (\d+)", page.locator(".answers .facts").inner_text()).group(1)


def test_asking_again_draws_anew_unless_the_form_has_a_seed(open_page):
    page = open_page("#一盏青灯听夜雨&seed=11")
    first = finished(page)
    assert seed_of(page) == "11" and page.input_value("#seed") == ""
    with emptied(page, ".scroll.lower"):
        page.click("#submit")
    finished(page)
    assert seed_of(page) != "11"
    page.click("summary")
    page.fill("#seed", "11")
    for _ in range(2):
        with emptied(page, ".scroll.lower"):
            page.click("#submit")
        assert finished(page) == first and seed_of(page) == "11"
    page.focus("#again")
    with emptied(page, ".scroll.lower"):
        page.keyboard.press("Enter")
    finished(page)
    expect(page.locator("#again")).to_be_focused()
    assert page.input_value("#seed") == "" and seed_of(page) != "11"


def test_back_and_forward_between_tabs_and_couplets(open_page):
    page = open_page("#couplets")
    for line in (UPPER, "春雨"):
        ask(page, line)
        finished(page)
    page.click("#how-tab")
    expect(page.locator("#how")).to_be_visible()
    answers = {UPPER: None, "春雨": None}
    page.go_back()
    expect(page.locator("#couplets")).to_be_visible()
    expect(page.locator(".scroll.upper")).to_have_text("春雨")
    answers["春雨"] = finished(page)
    page.go_back()
    expect(page.locator("#upper")).to_have_value(UPPER)
    finished(page)
    page.go_back()
    expect(page.locator(".answers")).to_have_class(re.compile("idle"))
    page.go_forward()
    page.go_forward()
    expect(page.locator("#upper")).to_have_value("春雨")
    assert finished(page) == answers["春雨"]
    page.go_forward()
    expect(page.locator("#how")).to_be_visible()


def test_an_answer_that_arrives_with_back_does_not_undo_it(open_page):
    page = open_page("#couplets")
    ask(page, UPPER)
    finished(page)
    page.evaluate(HELD_ANSWER)
    ask(page, "春雨")
    page.wait_for_function("() => window.release")
    page.evaluate("() => addEventListener('popstate', () => release(), { once: true })")  # the page hears of Back after this
    page.go_back()
    expect(page.locator(".answers")).to_have_class(re.compile("idle"))
    assert page.evaluate("location.hash") == "#couplets"
    page.go_forward()
    expect(page.locator("#upper")).to_have_value(UPPER)
    finished(page)


def test_back_from_a_couplet_that_is_not_answered_yet(open_page):
    page = open_page("#couplets")
    for line in (UPPER, "春雨"):
        ask(page, line)
        finished(page)
    page.evaluate(HELD_ANSWER)
    page.go_back()
    page.wait_for_function("() => window.release")
    page.go_back()
    page.wait_for_function("() => location.hash === '#couplets'")
    page.evaluate("() => { window.release(); return new Promise(requestAnimationFrame); }")
    expect(page.locator(".answers")).to_have_class(re.compile("idle"))
    page.go_forward()
    expect(page.locator("#upper")).to_have_value(UPPER)


def test_facts_tell_time_and_memory(open_page):
    page = open_page()
    ask(page, UPPER)
    finished(page)
    expect(page.locator(".answers .facts")).to_contain_text(re.compile(r"answered in \d+ ms"))
    expect(page.locator(".answers .facts")).to_contain_text(re.compile(r"\d+ KiB"))


def test_examples_run(open_page):
    page = open_page()
    page.click(".examples li:nth-child(3) a")
    finished(page)
    assert page.locator(".scroll.upper").text_content() == "雪落梅花梅落雪"


def test_languages(open_page):
    page = open_page(locale="zh-CN")
    expect(page.locator("#submit")).to_have_text(re.compile("对下联"))
    expect(page.locator("#submit .en")).to_be_hidden()
    page.click("text=English")
    expect(page.locator("#submit .en")).to_be_visible()
    expect(page.locator("#submit .zh")).to_be_hidden()
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.title() == "Linnet · Couplets"


def test_result_is_announced(open_page):
    page = open_page()
    ask(page, UPPER)
    finished(page)
    expect(page.locator("[role=status]")).to_have_text(f"Lower line: {lower_line(page)}")


def test_reduced_motion_shows_at_once(open_page):
    page = open_page(reduced_motion="reduce")
    ask(page, UPPER)
    finished(page)
    names = page.locator(".ink, .scroll").evaluate_all(
        "(all) => all.map((e) => getComputedStyle(e).animationName)"
    )
    assert set(names) == {"none"}


@pytest.mark.parametrize("line", [UPPER, "山远云低，归舟一叶，" * 3 + "月明"])
@pytest.mark.parametrize("width", [360, 390, 768])
def test_narrow_screens_do_not_scroll_sideways(open_page, width, line):
    page = open_page("#" + line, viewport={"width": width, "height": 800})
    finished(page)
    page.click("summary")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for scroll in ("upper", "lower"):
        fits = f"(e) => e.scrollWidth <= e.clientWidth + 1 && e.scrollHeight <= e.clientHeight + 1"
        assert page.locator(f".scroll.{scroll}").evaluate(fits)


@pytest.mark.parametrize("line, starts", [
    ("山远云低，归舟一叶", set()),
    ("春风得意马蹄疾，一日看尽长安花", {"一"}),  # seven, a comma, seven
    ("山远云低，归舟一叶，山远云低，归舟一叶，月明", {"山"}),
    ("山" * 15 + "水" * 15, {"山", "水"}),
])
def test_a_long_line_turns_between_its_parts(open_page, line, starts):
    """A column begins after punctuation; without any, columns are equal."""
    page = open_page(viewport={"width": 1280, "height": 1000})
    page.fill("#upper", line)
    expect(page.locator(".scroll.upper")).to_have_text(line)
    lefts = page.locator(".scroll.upper .ink").evaluate_all("(all) => all.map((e) => Math.round(e.getBoundingClientRect().left))")
    turns = [line[i] for i in range(1, len(line)) if lefts[i] != lefts[i - 1]]
    assert set(turns) == starts and page.locator(".scroll.upper .turn").count() == len(turns)


def contrast(page, selector, paper):
    """WCAG contrast of an element's colour on the colour `paper` [r, g, b]."""
    text = page.locator(selector).first.evaluate("(e) => getComputedStyle(e).color")
    ink = [int(v) for v in re.findall(r"\d+", text)[:3]]

    def luminance(rgb):
        part = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb)]
        return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2]

    high, low = sorted((luminance(ink), luminance(paper)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast(open_page):
    """Every text on the lightest colour it can lie on: the wall's glow, the paper, the button."""
    page = open_page("#" + UPPER)
    finished(page)
    wall, paper, chosen = [0x3C, 0x2A, 0x26], [0xBA, 0x1A, 0x22], [0x8D, 0x0F, 0x17]
    for selector, ground in [
        (".ask-label", wall), ("summary", wall), (".examples a", wall), ("footer", wall),
        (".facts", wall), (".note", wall), (".scroll.upper", paper),
        ("[aria-selected=true] .line", chosen), ("[aria-selected=true] .score", chosen),
        ("#submit", [0xED, 0xC6, 0x6A]), ("#upper", [0x0E, 0x0C, 0x12]),
    ]:
        assert contrast(page, selector, ground) >= 4.5, selector


def test_picture(open_page, screenshots):
    view = {"width": 1280, "height": 1040}
    page = open_page(f"#{UPPER}&seed=7&banner=月满人间", viewport=view)
    finished(page)
    with emptied(page, ".scroll.lower"):
        page.click("#submit")  # once more: the first answer's time has the loading of the page in it
    finished(page)
    page.evaluate("document.activeElement.blur()")
    page.screenshot(path=screenshots / "page.png", animations="disabled")
    phone = open_page(f"#{UPPER}&seed=7", locale="zh-CN", **PHONE)
    finished(phone)
    phone.screenshot(path=screenshots / "phone.png", animations="disabled")
    assert (screenshots / "page.png").stat().st_size > 20_000
