"""aiortc set up for talk: a jitter buffer that waits for as little as it can, holes covered, a clear Opus encoder.

And a data channel that soon repeats what was lost. All replace names that aiortc looks up when a peer is made, so they
are called before the first one; aiortc is pinned. Must not know: FastRTC, sessions.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import aiortc.codecs
import aiortc.rtcrtpreceiver
import aiortc.rtcsctptransport
import numpy as np
from aiortc.jitterbuffer import JitterFrame
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame

from personaplex_app.web.arrivals import MOST_PATIENCE, ArrivalCounters, InOrder
from personaplex_app.web.concealment import Concealment

FIRST_RETRY_SECONDS, LEAST_RETRY_SECONDS = 0.5, 0.4


class AudioRun(JitterFrame):
    """Packets that may be decoded now, in order, None for each lost one; other codecs than Opus see them joined."""

    def __init__(self, parts: list[bytes | None], timestamp: int) -> None:
        super().__init__(b"".join(part for part in parts if part), timestamp)
        self.parts = parts


class AudioBuffer:
    """What aiortc's receiver asks of a jitter buffer, for audio: every packet is a frame of its own."""

    capacity = MOST_PATIENCE

    def __init__(self) -> None:
        self._order: InOrder[Any] = InOrder()

    @property
    def counters(self) -> ArrivalCounters:
        """Packets lost and late."""
        return self._order.counters

    def add(self, packet: Any) -> tuple[bool, AudioRun | None]:
        """Takes an RTP packet; returns whether a picture is missing (never), and what can be decoded now."""
        run = self._order.push(packet.sequence_number, packet)
        came = [part for part in run if part is not None]
        if not came:
            return False, None
        return False, AudioRun([part and part._data for part in run], came[-1].timestamp)


def use_small_jitter_buffer() -> None:
    """Audio receivers made from now on play a packet when it comes, instead of 80 ms later, and cover lost ones."""
    original = aiortc.rtcrtpreceiver.JitterBuffer
    if getattr(original, "small_for_audio", False):
        return

    def make(capacity: int, prefetch: int = 0, is_video: bool = False) -> Any:
        return original(capacity, prefetch, is_video) if is_video else AudioBuffer()

    make.small_for_audio = True  # type: ignore[attr-defined]
    aiortc.rtcrtpreceiver.JitterBuffer = make
    _use_covering_decoder()


def _use_covering_decoder() -> None:
    original: Any = aiortc.codecs.OpusDecoder

    class CoveringDecoder(original):  # type: ignore[misc]
        """Opus with holes covered; frames are int16 [1, 2n] with both channels side by side."""

        def __init__(self) -> None:
            super().__init__()
            self._concealment = Concealment()
            self._decoded_samples = 0

        def decode(self, encoded_frame: JitterFrame) -> list[AudioFrame]:
            frames: list[AudioFrame] = []
            for part in getattr(encoded_frame, "parts", [encoded_frame.data]):
                if part:
                    for frame in super().decode(JitterFrame(part, 0)):
                        frames.append(self._framed(self._concealment.good(frame.to_ndarray().reshape(-1, 2).T)))
                else:  # an empty packet would end libopus's stream
                    frames.append(self._framed(self._concealment.hole()))
            return [frame for frame in frames if frame.samples]

        def _framed(self, sound: Any) -> AudioFrame:
            frame = AudioFrame.from_ndarray(np.ascontiguousarray(sound.T).reshape(1, -1), "s16", "stereo")
            frame.sample_rate, frame.time_base = aiortc.codecs.opus.SAMPLE_RATE, Fraction(aiortc.codecs.opus.TIME_BASE)
            frame.pts = self._decoded_samples
            self._decoded_samples += frame.samples
            return frame

    aiortc.codecs.OpusDecoder = CoveringDecoder


def use_clear_encoder() -> None:
    """Opus encoders made from now on keep the waveform, and 4 ms less delay; a call that we end leaves no traceback.

    aiortc asks for `voip`, whose filters turn the phase of low voices: correlation with the input 0.957, not 0.998.
    """
    original: Any = aiortc.codecs.OpusEncoder
    if getattr(original, "clear", False):
        return

    class ClearEncoder(original):  # type: ignore[misc]
        clear = True

        def __init__(self) -> None:
            super().__init__()
            self.codec.options = {"application": "lowdelay"}

        def pack(self, packet: Any) -> Any:
            if packet is None:  # FastRTC's track hands over nothing once we closed the call
                raise MediaStreamError
            return super().pack(packet)

    aiortc.codecs.OpusEncoder = ClearEncoder


def use_quick_channel() -> None:
    """Data channels opened from now on repeat a lost message after half a second, as browsers do, instead of three.

    The page is asked for its ticket on that channel, and has two seconds to bring it.
    """
    aiortc.rtcsctptransport.SCTP_RTO_INITIAL = FIRST_RETRY_SECONDS
    aiortc.rtcsctptransport.SCTP_RTO_MIN = LEAST_RETRY_SECONDS
