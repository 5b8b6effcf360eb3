"""Things that are on the page for a moment only: the page itself records them, so that a test need not look in time."""

import contextlib
import time
from urllib.parse import urljoin

PATIENCE = 60  # seconds until a wait fails


def drawn(page):
    """Waits for the page's next frame. A change is drawn in the frame after it, so until then the page shows its old state."""
    page.evaluate("() => new Promise(requestAnimationFrame)")


@contextlib.contextmanager
def emptied(page, selector):
    """Empties the element when the block begins, before the page writes to it again."""
    page.evaluate(
        """(selector) => {
            window.emptied = false;
            const element = document.querySelector(selector);
            const note = () => { emptied ||= element.textContent === ''; };
            new MutationObserver(note).observe(element, { childList: true, subtree: true, characterData: true });
        }""",
        selector,
    )
    yield
    page.wait_for_function("() => window.emptied")


def deleted(page, *states):
    """Waits until the server has none of these states."""
    end = time.monotonic() + PATIENCE
    while {kept["id"] for kept in page.request.get(urljoin(page.url, "/v1/states?limit=1000")).json()["data"]} & set(states):
        assert time.monotonic() < end, states
        drawn(page)
