"""A server that goes away and comes back: every tab says so and recovers, styled."""

import pytest
from playwright.sync_api import expect

AWAY = "ERR_FAILED|ERR_CONNECTION|Failed to fetch"
TABS = {"images": "#paint", "how": "#lab-line", "poems": "#poem-title", "race": "#race-go", "speech": "#speech-file", "strip": "#strip-go"}
DEMOS = list(TABS)[2:]  # tabs that need demos.css


@pytest.mark.parametrize("lost", ["**/*.js", "**/*.css"])
@pytest.mark.parametrize("tab", TABS)
def test_an_unvisited_tab_waits_for_the_server(open_page, tab, lost):
    page = open_page("#couplets", allow=AWAY)
    for pattern in (lost, "**/health"):
        page.route(pattern, lambda route: route.abort())
    page.click(f"#{tab}-tab")
    if lost.endswith("js") or tab in DEMOS:
        expect(page.locator("#away")).to_contain_text("cannot be reached")
    page.unroute_all(behavior="ignoreErrors")
    expect(page.locator(TABS[tab])).to_be_visible()
    expect(page.locator("#away")).to_be_empty()
    sheets = page.evaluate("Array.from(document.styleSheets, (s) => s.href.split('/').pop())")
    assert "demos.css" in sheets or tab not in DEMOS


def test_tabs_are_found_after_many_failures(open_page):
    """However often the list of models fails."""
    page, asked = open_page("#couplets", allow=AWAY), []

    def refuse(route):
        asked.append(route)
        if len(asked) <= 3:
            route.abort()
        else:
            route.continue_()

    page.route("**/v1/models", refuse)
    page.reload()
    expect(page.locator("#poems-tab")).to_be_visible()
    assert len(asked) == 4


def test_tabs_are_found_when_the_server_is_back(open_page):
    page = open_page("#couplets", allow=AWAY)
    for pattern in ("**/v1/models", "**/health"):
        page.route(pattern, lambda route: route.abort())
    page.reload()
    expect(page.locator(".scroll.upper")).to_have_text("海上明月")
    expect(page.locator("#poems-tab")).to_be_hidden()
    page.unroute_all(behavior="ignoreErrors")
    expect(page.locator("#poems-tab")).to_be_visible()
