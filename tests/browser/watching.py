"""What is on the page for a moment only: noted by the page itself, so that a test need not look in time."""

import contextlib


@contextlib.contextmanager
def emptied(page, selector):
    """What is done within empties the element, before something new is written there."""
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
