"""The page without JavaScript: a plain form, the answer rendered by the server."""

import re

import pytest
from playwright.sync_api import expect

REFUSED = r"status of 4\d\d"


@pytest.fixture
def plain(open_page):
    return lambda **options: open_page(java_script_enabled=False, **options)


def post(page, line):
    """Returns when the answer is the page: without a script a form navigates."""
    page.fill("#upper", line)
    with page.expect_navigation():
        page.click("#submit")


def test_both_languages_and_nothing_dead(plain):
    page = plain()
    expect(page.locator("#submit")).to_contain_text("对下联")
    expect(page.locator("#submit")).to_contain_text("Answer")
    for dead in (".languages", ".examples", "#banner"):
        expect(page.locator(dead)).to_be_hidden()
    expect(page.locator(".scroll")).to_have_count(0)


def test_form_gives_the_pair(plain, screenshots):
    page = plain()
    post(page, "海上明月")
    expect(page.locator(".scroll.upper")).to_have_text("海上明月")
    lower = page.locator(".scroll.lower").inner_text()
    assert len(lower) == 4
    lines = page.locator("ol.candidates > li .line").all_text_contents()
    assert lines[0] == lower and len(lines) >= 2
    expect(page.locator("#upper")).to_have_value("海上明月")
    right = page.locator(".scroll.upper").bounding_box()
    left = page.locator(".scroll.lower").bounding_box()
    assert left["x"] < right["x"] and abs(left["y"] - right["y"]) < 1
    page.screenshot(path=screenshots / "plain.png", animations="disabled")


def test_spaces_are_no_part_of_the_line(plain):
    page = plain()
    post(page, " 海上　明 月 ")
    expect(page.locator(".scroll.upper")).to_have_text("海上明月")
    assert len(page.locator(".scroll.lower").inner_text()) == 4


@pytest.mark.parametrize("line", ["<script>alert(1)</script>", '"><img src=x>', "海上😀月", ""])
def test_bad_line_comes_back_escaped(plain, line):
    page = plain(allow=REFUSED)
    post(page, line)
    expect(page.locator("#result p.error[role=alert]")).to_be_visible()
    expect(page.locator("#upper")).to_have_value(line)
    expect(page.locator(".scroll")).to_have_count(0)
    assert page.locator("img").count() == 0
    assert page.locator("script:not([src])").count() == 0


def test_options_are_used_and_kept(plain):
    page = plain()
    assert page.input_value("#n") == "5"
    page.click("summary")
    sent = {"#n": "2", "#seed": "5", "#temperature": "0.75"}
    for field, value in sent.items():
        page.fill(field, value)
    post(page, "海上明月")
    first = page.locator("ol.candidates .line").all_text_contents()
    assert len(first) == 2
    assert {field: page.input_value(field) for field in sent} == sent
    assert page.input_value("#image-n") == "16"  # the other form is as it was
    post(page, "海上明月")
    assert page.locator("ol.candidates .line").all_text_contents() == first


def test_images_come_back_in_the_page(plain, screenshots):
    page = plain()
    sent = {"#image-n": "3", "#image-seed": "5", "#image-temperature": "0.9"}
    for field, value in sent.items():
        page.fill(field, value)
    page.click("#paint")
    pictures = page.locator("#images .tiles img")
    expect(pictures).to_have_count(3, timeout=60_000)
    assert {field: page.input_value(field) for field in sent} == sent
    expect(page.locator("#images .facts")).to_have_text("seed 5")
    request = {"prompt": "", "n": 3, "seed": 5, "temperature": 0.9}
    reply = page.context.request.post(page.url.split("#")[0] + "v1/images/generations", data=request)
    expected = ["data:image/png;base64," + image["b64_json"] for image in reply.json()["data"]]
    assert [picture.get_attribute("src") for picture in pictures.all()] == expected
    assert all(pictures.evaluate_all("(all) => all.map((e) => e.complete && e.naturalWidth > 1)"))
    box = pictures.first.bounding_box()
    assert box["width"] == pytest.approx(box["height"], abs=1) and box["width"] >= 60
    page.screenshot(path=screenshots / "plain-images.png")


def test_a_refused_image_form_says_so_and_keeps_its_fields(plain):
    page = plain(allow=REFUSED)
    sent = {"#image-n": "2", "#image-seed": "5", "#image-temperature": "1"}
    for field, value in sent.items():
        page.fill(field, value)
    page.locator("#image-n").evaluate("(e) => { e.max = ''; e.value = '65'; }")
    page.click("#paint")
    expect(page.locator("#images p.error[role=alert]").last).to_contain_text("n must be a number")
    assert {field: page.input_value(field) for field in sent} == {**sent, "#image-n": "65"}
    assert page.locator("img").count() == 0
    expect(page.locator("#result .error")).to_have_count(0)


def test_phone_without_javascript(plain):
    page = plain(viewport={"width": 360, "height": 740})
    assert page.evaluate("1") == 1
    post(page, "一盏青灯听夜雨")
    for selector in (".scroll.upper", ".scroll.lower", ".door", "#submit", "#paint", "#image-seed"):
        box = page.locator(selector).bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 360


def test_policy_is_strict(origin, browser):
    context = browser.new_context()
    response = context.request.get(origin + "/")
    policy = {part.strip() for part in response.headers["content-security-policy"].split(";")}
    assert {"default-src 'none'", "script-src 'self'", "style-src 'self'", "form-action 'self'",
            "base-uri 'none'", "frame-ancestors 'none'"} <= policy
    assert "unsafe" not in response.headers["content-security-policy"]
    html = response.text()
    assert "style=" not in html and "onclick" not in html
    others = [tag for tag, url in re.findall(r'<(\w+)[^>]*"(https?://[^"]*)', html) if not url.startswith(origin + "/")]
    assert set(others) == {"a"}  # links lead elsewhere, nothing is loaded from there
    context.close()
