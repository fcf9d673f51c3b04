"""The calls by their connection: what each page last said, kept a while after the end. Pure.

A connection's id is chosen by the browser, so nothing but words for that page hangs on it.
Must not know: gradio, FastRTC.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from personaplex_app.engine.session import Session
from personaplex_app.web.call_view import CallView

MOST_REMEMBERED = 256


class Calls:
    """Bounded memory of calls; the oldest is forgotten first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._views: OrderedDict[str, CallView] = OrderedDict()
        self.sessions: OrderedDict[str, Session] = OrderedDict()

    def opened(self, webrtc_id: str, session: Session) -> None:
        """A call got a slot."""
        self.sessions[webrtc_id] = session
        while len(self.sessions) > MOST_REMEMBERED:
            self.sessions.popitem(last=False)

    def show(self, webrtc_id: str, view: CallView) -> None:
        """The words that this call's page shows now."""
        self._views[webrtc_id] = view
        self._views.move_to_end(webrtc_id)
        while len(self._views) > MOST_REMEMBERED:
            self._views.popitem(last=False)

    def view(self, webrtc_id: str) -> CallView | None:
        """The last words of a call, if it is still remembered."""
        return self._views.get(webrtc_id)
