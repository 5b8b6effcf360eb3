"""The talk's tab: a conversation by stored responses, whose state keeps one size. A message can be changed, and the talk goes
another way. The list of talks survives a reload. The tab is offered where a model with a template for chats is served."""

import pytest
from playwright.sync_api import expect

import text_model
from test_access import WAYS, faults, fits
from test_chat_templates import with_template
from watching import deleted, drawn

TAB = 16_000  # bytes of the tab's scripts and style
# Of an answer only the begin comes, until it is stopped: the page cannot be too late to stop it.
HOLD = """() => {
  const real = window.fetch;
  window.fetch = async (path, options) => {
    const answer = await real(path, options);
    if (!window.hold || path !== '/v1/responses') return answer;
    const reader = answer.body.getReader();
    let begin = '';
    while (!/output_text[.]delta[^]*?\\n\\n/.test(begin)) begin += new TextDecoder().decode((await reader.read()).value);
    return new Response(new ReadableStream({ start(stream) {
      stream.enqueue(new TextEncoder().encode(/^[^]*?output_text[.]delta[^]*?\\n\\n/.exec(begin)[0]));
      options.signal.addEventListener('abort', () => stream.error(new DOMException('stopped', 'AbortError')));
    } }));
  };
}"""

# The talk is kept when its answer has ended, before the page shows the end.
ANSWERED = """(text) => JSON.parse(localStorage.getItem('talks') ?? '[]')[0]?.turns.at(-1).ask === text.trim()
  && !document.querySelector('#talk-send').disabled"""


@pytest.fixture
def home(serve, tmp_path):
    """The address of a server with a model that talks, and one that does not."""
    ends = list(range(8))  # of 257 tokens, so that an answer is short
    with_template(text_model.write_bytes(tmp_path / "talker", end=ends, context=100_000), "rwkv")
    text_model.write_bytes(tmp_path / "writer")
    return serve(tmp_path)


@pytest.fixture
def talk(open_page, home):
    def talk_(**options):
        page = open_page("#talk", at=home, **options)
        expect(page.locator("#talk-text")).to_be_visible()
        return page

    return talk_


def say(page, text):
    """Sends the message, waits for the answer, and returns the request."""
    with page.expect_response(lambda response: response.url.endswith("/v1/responses")) as caught:
        page.fill("#talk-text", text)
        page.keyboard.press("Enter")
    page.wait_for_function(ANSWERED, arg=text)
    return caught.value.request.post_data_json


def expect_turns(page, *texts):
    expect(page.locator("#turns .ask-said p")).to_have_text(texts)


def answers(page):
    return page.locator("#turns .answer-said p").all_inner_texts()


def ids(page):
    return page.evaluate("JSON.parse(localStorage.getItem('talks'))[0].turns.map(({ id }) => id)")


def meter(page, name):
    return page.locator(f"#talk .meters .{name} .text").inner_text()


def test_a_talk_and_its_memory(talk):
    page = talk()
    first = say(page, "hello")
    assert first["input"] == [{"role": "user", "content": "hello"}] and "previous_response_id" not in first
    assert first["model"] == "talker" and first["stream"] is True
    size, read = meter(page, "state"), meter(page, "read")
    second = say(page, "more <b>of</b> it")
    assert second["previous_response_id"] == ids(page)[0] and len(second["input"]) == 1
    expect_turns(page, "hello", "more <b>of</b> it")
    assert all(ids(page))
    assert meter(page, "state") == size and "iB" in size, "the memory stands still"
    assert meter(page, "read") != read
    assert page.locator("#talk .fill").evaluate("(bar) => bar.style.width") == "100%"
    expect(page.locator("#live")).to_have_text(page.evaluate("JSON.parse(localStorage.getItem('talks'))[0].turns[1].answer"))
    expect(page.locator("#talks li")).to_have_count(1)
    expect(page.locator(".claim")).to_contain_text("memory keeps one size")


def test_a_message_is_faster_than_the_list_of_models(open_page, home):
    page, held = open_page(at=home), []
    page.route("**/v1/models", lambda route: held.append(route))
    page.evaluate("location.hash = '#talk'")
    page.reload()
    expect(page.locator("#talk-text")).to_be_visible()
    page.fill("#talk-text", "hello")
    page.keyboard.press("Enter")
    expect(page.locator("#talk-stop")).to_be_visible()
    while not held:
        drawn(page)
    held[0].continue_()
    page.wait_for_function(ANSWERED, arg="hello")
    expect_turns(page, "hello")
    expect(page.locator("#talk-error")).to_be_empty()


def test_a_message_is_changed(talk):
    """The talk goes another way from there; the old talk stays."""
    page = talk()
    for text in ("one", "two", "three"):
        say(page, text)
    old, said = ids(page), answers(page)
    page.locator("#turns .ask-said button").nth(1).click()
    expect(page.locator("#talk-text")).to_have_value("two")
    expect(page.locator("#talk-send")).to_have_text("Send instead")
    page.click("#talk-cancel")
    expect(page.locator("#talk-text")).to_have_value("")
    page.locator("#turns .ask-said button").nth(1).click()
    sent = say(page, "another")
    assert sent["previous_response_id"] == old[0] and sent["input"] == [{"role": "user", "content": "another"}]
    expect_turns(page, "one", "another")
    assert ids(page)[0] == old[0] and ids(page)[1] not in old
    expect(page.locator("#talks li")).to_have_count(2)
    page.locator("#talks li button").nth(2).click()  # the old talk
    expect_turns(page, "one", "two", "three")
    assert answers(page) == said
    page.locator("#turns .ask-said button").first.click()
    assert "previous_response_id" not in say(page, "first of all")


def begin_story(page):
    """A second answer, of which the first part is there."""
    page.evaluate(HOLD)
    say(page, "hello")
    page.evaluate("window.hold = true")
    page.fill("#talk-text", "a long story")
    page.click("#talk-send")
    page.wait_for_function("() => document.querySelectorAll('#turns .answer-said p')[1]?.textContent")


def test_an_answer_is_stopped(talk):
    """Its part is kept, and the next message comes with it."""
    page = talk()
    begin_story(page)
    page.click("#talk-stop")
    expect(page.locator("#turns small").last).to_have_text("stopped")
    expect(page.locator("#talk-error")).to_have_text("")
    page.evaluate("window.hold = false")
    part = page.evaluate("JSON.parse(localStorage.getItem('talks'))[0].turns[1].answer")
    sent = say(page, "more")
    assert sent["previous_response_id"] == ids(page)[0]
    assert sent["input"] == [{"role": "user", "content": "a long story"}, {"role": "assistant", "content": part},
                             {"role": "user", "content": "more"}]


def test_talks_survive_a_reload(talk):
    page = talk()
    say(page, "hello")
    said, (first,) = answers(page), ids(page)
    page.reload()
    page.locator("#talks li button").first.click()
    expect_turns(page, "hello")
    assert answers(page) == said
    assert say(page, "more")["previous_response_id"] == first
    page.click("#talk-new")
    expect_turns(page)
    assert "previous_response_id" not in say(page, "something else")
    expect(page.locator("#talks li button:first-child")).to_have_text(["something else", "hello"])


def test_a_forgotten_talk_is_read_again(talk, home):
    page = talk(allow="404")
    say(page, "hello")
    (first,) = ids(page)
    answer = page.evaluate("JSON.parse(localStorage.getItem('talks'))[0].turns[0].answer")
    assert page.request.delete(f"{home}/v1/responses/{first}").ok
    sent = []
    page.on("request", lambda request: sent.append(request.post_data_json) if request.url.endswith("/v1/responses") else None)
    say(page, "more")
    expect(page.locator("#turns small").last).to_contain_text("read all of it again")
    refused, again = sent
    assert refused["previous_response_id"] == first and "previous_response_id" not in again
    assert [one["content"] for one in again["input"]] == ["hello", answer, "more"]
    assert say(page, "and")["previous_response_id"] == ids(page)[1]


def test_a_talk_is_deleted(talk, home):
    page = talk()
    for text in ("one", "two"):
        say(page, text)
    page.locator("#turns .ask-said button").nth(1).click()
    say(page, "another")
    shared, own = ids(page)
    page.locator("#talks li button").nth(1).click()
    expect(page.locator("#talks li")).to_have_count(1)
    deleted(page, own)
    assert page.request.get(f"{home}/v1/responses/{shared}").ok, "the other talk has it, too"
    expect(page.locator("#talk-new")).to_be_focused()


def titles(page):
    return page.locator("#talks li button:first-child")


def test_a_talk_that_is_answered_is_deleted(talk):
    """The end of its answer does not bring it back."""
    page = talk()
    begin_story(page)
    page.locator("#talks li button").nth(1).click()
    expect(page.locator("#talk-send")).to_be_enabled()  # the answer has ended
    expect(page.locator("#talks li")).to_have_count(0)
    assert page.evaluate("localStorage.getItem('talks')") == "[]"


def test_a_change_that_fails_leaves_the_talk(talk):
    """The changed message can be sent again; the message that was being written before comes back after it."""
    page = talk(allow="503")
    for text in ("one", "two", "three"):
        say(page, text)
    page.fill("#talk-text", "a draft")
    page.locator("#turns .ask-said button").nth(1).click()
    page.route("**/v1/responses", lambda route: route.fulfill(status=503, body="{}"))
    page.fill("#talk-text", "another")
    page.keyboard.press("Enter")
    expect(page.locator("#talk-error")).to_contain_text("Try again in 1 s")
    expect_turns(page, "one", "two", "three")
    expect(titles(page)).to_have_text(["one"])
    expect(page.locator("#talk-text")).to_have_value("another")
    expect(page.locator("#talk-send")).to_have_text("Send instead")
    page.unroute_all()
    page.keyboard.press("Enter")
    expect_turns(page, "one", "another")
    expect(titles(page)).to_have_text(["one", "one"])
    expect(page.locator("#talk-text")).to_have_value("a draft")


def test_cancel_brings_a_draft_back(talk):
    page = talk()
    say(page, "one")
    page.fill("#talk-text", "a long draft")
    page.locator("#turns .ask-said button").first.click()
    expect(page.locator("#talk-text")).to_have_value("one")
    page.click("#talk-cancel")
    expect(page.locator("#talk-text")).to_have_value("a long draft")
    expect(page.locator("#talk-text")).to_be_focused()
    page.locator("#turns .ask-said button").first.click()
    page.click("#talk-new")
    expect(page.locator("#talk-text")).to_have_value("a long draft")


def test_an_unanswered_message_stays_in_its_talk(talk):
    page = talk()
    page.route("**/v1/responses", lambda route: None)
    page.fill("#talk-text", "hello")
    page.keyboard.press("Enter")
    expect(page.locator("#talk-stop")).to_be_visible()
    page.click("#talk-new")
    expect(page.locator("#talk-send")).to_be_enabled()
    expect(page.locator("#talk-text")).to_have_value("")
    expect(page.locator("#talks li")).to_have_count(0)


def test_an_answer_leaves_the_focus(talk):
    """It stays where the visitor went, and in the message where its button was disabled or hidden."""
    page, held = talk(), []
    say(page, "hello")
    page.route("**/v1/responses", lambda route: held.append(route))
    page.fill("#talk-text", "more")
    page.click("#talk-send")
    expect(page.locator("#talk-text")).to_be_focused()
    titles(page).first.focus()
    while not held:
        drawn(page)
    held[0].continue_()
    page.wait_for_function(ANSWERED, arg="more")
    drawn(page)
    expect(titles(page).first).to_be_focused()
    page.fill("#talk-text", "stopped")
    page.keyboard.press("Enter")
    expect(page.locator("#talk-stop")).to_be_visible()  # a hidden button takes no focus
    page.focus("#talk-stop")
    page.keyboard.press("Enter")
    expect(page.locator("#talk-stop")).to_be_hidden()
    expect(page.locator("#talk-text")).to_be_focused()


def test_two_tabs_of_a_browser_keep_all_talks(talk, home):
    page = talk()
    say(page, "one")
    other = page.context.new_page()
    other.goto(f"{home}/#talk")
    expect(titles(other)).to_have_text(["one"])
    say(page, "two")
    page.click("#talk-new")
    say(page, "three")
    say(other, "four")
    for tab in (page, other):
        expect(titles(tab)).to_have_text(["four", "three", "one"])
    other.locator("#talks li button").nth(3).click()  # forgets three
    for tab in (page, other):
        expect(titles(tab)).to_have_text(["four", "one"])
    titles(other).nth(1).click()
    expect_turns(other, "one", "two")


BEGIN = 'event: response.output_text.delta\ndata: {"type": "response.output_text.delta", "delta": "It"}\n\n'
FAILED = 'data: {"type": "response.failed", "response": {"status": "failed", "error": {"message": "No memory is left."}}}\n\n'


@pytest.mark.parametrize("events, told", [("", "cannot be reached"), (BEGIN, "cannot be reached"), (FAILED, "No memory is left."),
                                          (BEGIN + FAILED, "No memory is left.")])
def test_a_stream_that_breaks_is_told(talk, events, told):
    page = talk()
    page.route("**/v1/responses", lambda route: route.fulfill(content_type="text/event-stream", body=events))
    page.fill("#talk-text", "hello")
    page.keyboard.press("Enter")
    expect(page.locator("#talk-error")).to_contain_text(told)
    if events.startswith(BEGIN):
        expect(page.locator("#turns small")).to_have_text("stopped")
    else:
        expect(page.locator("#talk-text")).to_have_value("hello")


def test_a_title_ends_with_a_whole_character(talk):
    page = talk()
    say(page, "x" * 39 + "😀abc")
    expect(titles(page)).to_have_text(["x" * 39 + "😀"])


def test_talks_of_an_older_page_are_read(talk):
    """They have no keys."""
    page = talk()
    turns = [{"ask": "old", "answer": "yes", "id": None}]
    page.evaluate("(turns) => localStorage.setItem('talks', JSON.stringify([{ title: 'old', model: 'talker', turns }]))", turns)
    page.reload()
    titles(page).first.click()
    say(page, "new")
    expect(titles(page)).to_have_text(["old"])
    expect_turns(page, "old", "new")


@pytest.mark.parametrize("way", WAYS)
def test_on_every_screen(talk, way):
    page = talk(**WAYS[way])
    say(page, "hello")
    say(page, "a long message " * 20)
    assert fits(page) and faults(page) == []
    page.locator("#turns .ask-said button").first.click()
    assert fits(page) and faults(page) == []


def test_in_chinese(talk):
    page = talk(locale="zh-CN")
    expect(page.locator("#talk-tab .zh")).to_be_visible()
    expect(page.locator("#talk-send")).to_have_text("说")
    say(page, "你好")
    assert "这场谈话的记忆" in meter(page, "state") and "个词元" in meter(page, "read")
    page.click("text=English")
    expect(page.locator("#talk-send")).to_have_text("Send")


def test_the_tab_is_offered_where_a_model_talks(open_page, home):
    page = open_page("#how", at=home)
    scripts = []
    page.on("response", lambda answer: scripts.append(answer) if "/talk" in answer.url else None)
    page.wait_for_function("() => !document.querySelector('#talk-tab').hidden")
    assert scripts == [], "nothing of it is loaded before it is opened"
    page.click("#talk-tab")
    expect(page.locator("#talk-text")).to_be_visible()
    sizes = {answer.url.rsplit("/", 1)[1]: len(answer.body()) for answer in scripts}
    assert sizes.keys() == {"talk.js", "talks.js", "talk.css"} and sum(sizes.values()) <= TAB, sizes


def test_without_such_a_model_there_is_no_tab(open_page):
    page = open_page()
    expect(page.locator("#race-tab")).to_be_visible()
    expect(page.locator("#talk-tab")).to_be_hidden()
    page = open_page("#talk")
    page.fill("#talk-text", "hello")
    page.click("#talk-send")
    expect(page.locator("#talk-error")).to_have_text("This server has no model that talks.")
