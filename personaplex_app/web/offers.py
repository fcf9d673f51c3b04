"""What a browser sends to open a call, looked at before anything is done with it. Pure.

Must not know: FastRTC, the engine.
"""

from __future__ import annotations

from typing import Any

MOST_ID_CHARACTERS = 64
MOST_SDP_CHARACTERS = 100_000
PARTS = ("m=audio", "m=application")  # sound, and the channel on which the ticket is asked for


def is_signal(body: Any) -> bool:
    """Whether this has the shape of an offer or of a candidate, of believable size."""
    if not isinstance(body, dict) or body.get("type") not in ("offer", "ice-candidate"):
        return False
    webrtc_id = body.get("webrtc_id")
    if not isinstance(webrtc_id, str) or not 0 < len(webrtc_id) <= MOST_ID_CHARACTERS:
        return False
    if body["type"] == "ice-candidate":
        return isinstance(body.get("candidate"), dict)
    sdp = body.get("sdp")
    return isinstance(sdp, str) and len(sdp) <= MOST_SDP_CHARACTERS and all(part in sdp for part in PARTS)


def failed(error: str) -> dict[str, Any]:
    """A refusal in the form that FastRTC's page understands."""
    return {"status": "failed", "meta": {"error": error}}
