"""What opens a call is looked at first: anything but a plausible offer or candidate is refused."""

from __future__ import annotations

from typing import Any

import pytest

from personaplex_app.web.offers import MOST_ID_CHARACTERS, MOST_SDP_CHARACTERS, is_signal

SDP = "v=0\r\nm=audio 9\r\nm=application 9"
OFFER = {"type": "offer", "sdp": SDP, "webrtc_id": "abc"}
CANDIDATE = {"type": "ice-candidate", "candidate": {"candidate": ""}, "webrtc_id": "abc"}


@pytest.mark.parametrize("body", [OFFER, CANDIDATE, {**OFFER, "more": 1}])
def test_what_browsers_send_passes(body: dict[str, Any]) -> None:
    assert is_signal(body)


@pytest.mark.parametrize(
    "body",
    [
        None,
        "offer",
        [1],
        {},
        {**OFFER, "sdp": None},
        {**OFFER, "sdp": ""},
        {**OFFER, "sdp": "v=0\r\nm=audio 9"},
        {**OFFER, "sdp": "v=0\r\nm=application 9"},
        {**OFFER, "sdp": SDP + "v" * MOST_SDP_CHARACTERS},
        {**OFFER, "webrtc_id": None},
        {**OFFER, "webrtc_id": ""},
        {**OFFER, "webrtc_id": "x" * (MOST_ID_CHARACTERS + 1)},
        {**OFFER, "type": "answer"},
        {**CANDIDATE, "candidate": "x"},
        {"type": "offer", "webrtc_id": "abc"},
    ],
)
def test_anything_else_is_refused(body: Any) -> None:
    assert not is_signal(body)
