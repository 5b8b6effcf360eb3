"""The tab of dictation. A file, and the microphone's sound, become a WAV of the model's rate, and the page shows the
words with their times. Faults get an explanation. The tab is absent where no speech model is served."""

import itertools
import json
import math
import os
import re
import struct
import urllib.request
import wave
from io import BytesIO

import pytest
from playwright.sync_api import expect

import image_model
import sounds
import speech_model
from images import encode_form

VIEW = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
TONE = [0.5 * math.sin(2 * math.pi * 700 * i / 16000) for i in range(16000)]


def ask(address, sound):
    """The server's answer to a file."""
    kind, body = encode_form({"response_format": "verbose_json", "timestamp_granularities[]": "word",
                              "file": sounds.File(sound)})
    request = urllib.request.Request(address + sounds.ROUTE, body, {"Content-Type": kind})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


WATCH = """() => {
  const plain = window.fetch;
  window.sent = [];
  window.fetch = async (path, options) => {
    const file = options?.body instanceof FormData && options.body.get('file');
    if (file) window.sent.push(Array.from(new Uint8Array(await file.arrayBuffer())));
    return plain(path, options);
  };
}"""


def watch(page):
    """The files that the page sends are kept: the browser's protocol does not show them."""
    page.evaluate(WATCH)


def choose(page, data, name="said.wav"):
    page.set_input_files("#speech-file", {"name": name, "mimeType": "audio/wav", "buffer": data})


def expect_words(page, answer):
    """The page shows the server's answer."""
    assert len(answer["words"]) > 0
    expect(page.locator("#speech .words li")).to_have_text(
        [f"{w['word'].strip()} {w['start']:.2f}–{w['end']:.2f} s" for w in answer["words"]])


def wait_sent(page, count=1):
    """The newest file that the page sends."""
    page.wait_for_function("(count) => window.sent.length === count", arg=count)
    return bytes(page.evaluate("window.sent.at(-1)"))


def test_a_file(open_page, origin):
    """Of two channels and another rate: it is sent as one channel of the model's."""
    page = open_page("#speech", **VIEW)
    watch(page)
    expect(page.locator("#speech .heard")).to_be_hidden()
    choose(page, sounds.wav(TONE, rate=16000, channels=2))
    sent = wait_sent(page)
    with wave.open(BytesIO(sent)) as file:
        assert (file.getnchannels(), file.getframerate(), file.getsampwidth()) == (1, speech_model.RATE, 2)
        assert abs(file.getnframes() - speech_model.RATE) <= 2
        samples = struct.unpack(f"<{file.getnframes()}h", file.readframes(file.getnframes()))
    assert 15000 < max(samples) < 18000, "as loud as it was"
    want = ask(origin, sent)
    expect_words(page, want)
    expect(page.locator("#live")).to_have_text(want["text"])
    expect(page.locator("#speech .facts")).to_contain_text("sound 1.00 s")
    wave_box = page.locator(".wave").bounding_box()
    for item, word in zip(page.locator("#speech .words li").all(), want["words"]):
        box = item.bounding_box()
        middle = (box["x"] + box["width"] / 2 - wave_box["x"]) / wave_box["width"]
        want_middle = min(max((word["start"] + word["end"]) / 2, 0.01), 0.99)  # of a second; no word sticks out at an end
        assert middle == pytest.approx(want_middle, abs=0.05), "under its part of the wave"


@pytest.mark.parametrize("loud, high", [(0.04, True), (0.002, False)])
def test_a_quiet_voice_is_seen(open_page, loud, high):
    page = open_page("#speech", **VIEW)
    choose(page, sounds.wav([loud * x for x in TONE]))
    expect(page.locator("#speech .words li").first).to_be_visible()
    top = """() => { const { width, height } = document.querySelector('.wave');
        return document.querySelector('.wave').getContext('2d').getImageData(width / 2, height / 10, 1, 1).data[3]; }"""
    assert (page.evaluate(top) > 0) is high


def test_times_that_would_touch_are_left_out(open_page):
    """A screen has room for them or has not, so turning it shows and hides them."""
    words = [{"word": str(i), "start": i, "end": i + 0.1} for i in range(6)]
    page = open_page("#speech", **VIEW)
    page.route("**/v1/audio/transcriptions", lambda route: route.fulfill(json={"text": "0 1 2 3 4 5", "duration": 6, "words": words}))
    choose(page, sounds.wav([0.1] * 8000 * 6))
    page.locator("#speech .words li").nth(5).wait_for(state="attached")
    for width, shown in ((1280, True), (390, False), (1280, True)):
        page.set_viewport_size({"width": width, "height": 844})
        page.wait_for_function("(shown) => document.querySelector('#speech .words').classList.contains('crowded') !== shown", arg=shown)
        boxes = [item.bounding_box() for item in page.locator("#speech .words li").all()]
        assert len(boxes) == 6 and all(a["x"] + a["width"] < b["x"] for a, b in itertools.pairwise(boxes))


def test_another_file_takes_the_place_of_the_first(open_page, origin):
    page = open_page("#speech", locale="zh-CN", **VIEW)
    watch(page)
    for count in (1, 2):
        choose(page, sounds.wav(sounds.babble(1, seed=count)))
        expect_words(page, ask(origin, wait_sent(page, count)))
        expect(page.locator("#speech .facts")).to_contain_text("毫秒")


def test_a_file_is_dropped(open_page):
    page = open_page("#speech", **VIEW)
    data = page.evaluate_handle(
        """(bytes) => {
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array(bytes)], 'said.wav', { type: 'audio/wav' }));
          return data;
        }""", list(sounds.wav(sounds.babble(0.5))))
    page.dispatch_event("#speech h2", "drop", {"dataTransfer": data})
    expect(page.locator("#speech .words li").first).to_be_visible()


@pytest.mark.parametrize("locale, data, words", [
    ("en-US", b"no sound at all", "This is not a WAV, FLAC or Ogg file"),
    ("zh-CN", b"ID3\4" + bytes(400), "这里只读 WAV、FLAC 和 Ogg"),
    ("en-US", b"RIFF" + bytes(4) + b"WAVE" + bytes(400), "The browser cannot read this file"),
    ("zh-CN", b"OggS" + bytes(400), "浏览器读不了这个文件"),
    ("en-US", sounds.wav([0.0] * 8000 * 13), "A sound may last 12.0 s at most"),
    ("zh-CN", sounds.wav([0.0] * 50), "声音"),
])
def test_what_cannot_be_heard_is_explained(open_page, locale, data, words):
    page = open_page("#speech", allow="status of 400", locale=locale, **VIEW)
    choose(page, data)
    expect(page.locator("#speech-error")).to_contain_text(words)
    expect(page.locator("#speech .heard")).to_be_hidden()
    choose(page, sounds.wav(sounds.babble(0.5)))
    expect(page.locator("#speech .words li").first).to_be_visible()
    expect(page.locator("#speech-error")).to_be_empty()


@pytest.mark.parametrize("before, told", [
    ("", "there is none"),
    ("navigator.mediaDevices.getUserMedia = async () => { throw new DOMException('', 'NotAllowedError'); }", "the browser did not allow it"),
    ("navigator.mediaDevices.getUserMedia = async () => { throw new DOMException('', 'NotReadableError'); }", "another program"),
    ("Object.defineProperty(window, 'isSecureContext', { value: false })", "only on pages by HTTPS"),
])
def test_a_microphone_that_is_not_there_is_explained(open_page, before, told):
    page = open_page("#speech", **VIEW)
    page.evaluate(f"() => {{ {before} }}")
    page.click("#speech-record")
    expect(page.locator("#speech-error")).to_contain_text(re.compile(f"The microphone cannot be used: .*{told}"))
    expect(page.locator("#speech-record")).to_have_text("Record")


@pytest.fixture
def listening(browser, tmp_path):
    """A browser whose microphone hears a file: three seconds of a tone, again and again."""
    path = tmp_path / "microphone.wav"
    path.write_bytes(sounds.wav([0.5 * math.sin(2 * math.pi * 440 * i / 48000) for i in range(3 * 48000)], rate=48000))
    flags = ["--no-sandbox", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
             f"--use-file-for-fake-audio-capture={path}"]
    launched = browser.browser_type.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium-headless-shell"), args=flags)
    yield launched
    launched.close()


def begin_recording(listening, origin):
    page = listening.new_page(permissions=["microphone"], locale="en-US")
    page.goto(f"{origin}/#speech")
    watch(page)
    page.click("#speech-record")
    expect(page.locator("#speech-record")).to_have_text("Stop")
    return page


def test_the_microphone(listening, origin):
    page = begin_recording(listening, origin)
    page.wait_for_function("() => parseFloat(document.querySelector('.level .fill').style.transform.slice(7)) > 0.1")
    page.wait_for_function("() => parseFloat(document.querySelector('#speech .facts').textContent) >= 1.5")
    page.click("#speech-record")
    sent = wait_sent(page)
    expect(page.locator("#speech-record")).to_have_text("Record")
    with wave.open(BytesIO(sent)) as file:
        assert (file.getnchannels(), file.getframerate()) == (1, speech_model.RATE)
        samples = struct.unpack(f"<{file.getnframes()}h", file.readframes(file.getnframes()))
    assert 1.2 * speech_model.RATE < len(samples) < 20 * speech_model.RATE
    assert max(samples) > 2000, "nothing of the microphone is in it"
    expect_words(page, ask(origin, sent))


def test_the_microphone_stops_when_its_tab_is_left(listening, origin):
    """The words so far are transcribed."""
    page = begin_recording(listening, origin)
    page.wait_for_function("() => parseFloat(document.querySelector('#speech .facts').textContent) >= 1")
    page.evaluate("""() => {
        const { stop } = MediaRecorder.prototype;
        MediaRecorder.prototype.stop = function () { window.stopped = true; stop.call(this); };
    }""")
    page.click("#how-tab")
    assert page.evaluate("window.stopped")
    assert wait_sent(page)
    page.click("#speech-tab")
    expect(page.locator("#speech-record")).to_have_text("Record")


def test_the_microphone_has_no_part_in_a_missing_list_of_models(open_page):
    page = open_page(allow="ERR_FAILED")
    page.route("**/v1/models", lambda route: route.abort())
    page.evaluate("location.hash = '#speech'")
    page.reload()
    page.click("#speech-record")
    expect(page.locator("#speech-error")).to_contain_text("The server cannot be reached")
    page.unroute_all()


def test_by_keyboard_alone(open_page):
    page = open_page("#speech", **VIEW)
    expect(page.locator("#speech-record")).to_have_text("Record")
    page.focus("#speech-tab")
    for place in ("#speech-record", "#speech-file"):
        for _ in range(8):
            page.keyboard.press("Tab")
            if page.evaluate("(place) => document.activeElement.matches(place)", place):
                break
        expect(page.locator(place)).to_be_focused()


def test_the_only_tab(serve, open_page, tmp_path):
    speech_model.write(tmp_path / sounds.MODEL)
    address = serve(tmp_path)
    page = open_page(at=address, **VIEW)
    expect(page.locator("#speech")).to_be_visible()
    # Its memory is that of the whole recording, so the page does not say that memory keeps one size.
    expect(page.locator(".claim p")).to_be_hidden()


@pytest.mark.parametrize("name, words", [("digits-spoken", "The model here knows English digits only"), ("ears", "")])
def test_it_says_what_it_knows(serve, open_page, tmp_path, name, words):
    speech_model.write(tmp_path / name)
    page = open_page("#speech", at=serve(tmp_path), **VIEW)
    if words:
        expect(page.locator("#speech .knows")).to_contain_text(words)
    else:
        expect(page.locator("#speech .knows")).to_be_empty()


def test_no_model_no_tab(serve, open_page, tmp_path):
    image_model.write(tmp_path / "mnist", 28, 28)
    address = serve(tmp_path)
    page = open_page("#images", at=address, **VIEW)
    expect(page.locator("#how-tab")).to_be_visible()
    expect(page.locator("#speech-tab")).to_be_hidden()
    expect(page.locator(".claim p")).to_be_visible()
    page = open_page("#speech", at=address, **VIEW)
    choose(page, sounds.wav(sounds.babble(0.5)))
    expect(page.locator("#speech-error")).to_have_text("This server has no model of speech.")
