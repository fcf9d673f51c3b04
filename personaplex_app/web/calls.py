"""The calls by their connection: what each page last said, kept a while after the end. Pure.

A connection's id is chosen by the browser, so nothing but words for that page hangs on it.
Must not know: gradio, FastRTC.
"""

from __future__ import annotations

from collections import OrderedDict

from personaplex_app.web.call_view import CallView

MOST_REMEMBERED = 256


class Calls:
    """Bounded memory of calls; the oldest is forgotten first."""

    def __init__(self) -> None:
        self._views: OrderedDict[str, CallView] = OrderedDict()

    def show(self, webrtc_id: str, view: CallView) -> None:
        """The words that this call's page shows now."""
        self._views[webrtc_id] = view
        self._views.move_to_end(webrtc_id)
        while len(self._views) > MOST_REMEMBERED:
            self._views.popitem(last=False)

    def view(self, webrtc_id: str) -> CallView | None:
        """The last words of a call, if it is still remembered."""
        return self._views.get(webrtc_id)
