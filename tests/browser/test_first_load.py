"""What a visitor waits for before Talk can be pressed is little: few answers, few bytes, nothing for later."""

from __future__ import annotations

from playwright.sync_api import Request
from support.browser import browser_page
from support.library_page import READY
from support.speech import speak

MOST_ANSWERS = 130
MOST_BYTES = 2_000_000
LATER = ("check.js", "socket_sound.js", "voice_worklet.js", "locales/")  # for those who need them, once they do


def test_the_first_load_is_small(microphone, echo_url) -> None:
    with browser_page(echo_url, microphone(speak("Hello."))) as page:
        answers: list[Request] = []
        page.on("requestfinished", lambda request: answers.append(request))
        page.reload()
        page.wait_for_selector(READY)
        sizes = {request.url: request.sizes()["responseBodySize"] for request in answers}
        assert 50 < len(sizes) <= MOST_ANSWERS, sorted(sizes)
        assert sum(sizes.values()) <= MOST_BYTES, sorted(sizes.items(), key=lambda one: -one[1])[:5]
        assert [url for url in sizes if any(part in url for part in LATER)] == []
        late = page.evaluate(
            "() => performance.getEntriesByType('resource').filter(({name}) => name.includes('talk/static/'))"
            ".map(({name, encodedBodySize}) => [name, encodedBodySize])"
        )
        assert len(late) > 20 and sum(size for _, size in late) < 300_000
