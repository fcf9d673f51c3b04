"""Listens to voices: a codec row of its own beside the slots', so that no talk's codec is touched.

In: sound. Out: voices, a frame a piece. Must not know: sessions, whose voice it is.
"""

from __future__ import annotations

import threading
from collections.abc import Generator

import torch

from personaplex_app.audio import FRAME_SAMPLES, Pcm
from personaplex_app.model.codec import Codec
from personaplex_app.model.config import CheckpointConfig
from personaplex_app.model.prompts import LARGEST_SHARE, VoicePrompt
from personaplex_app.model.voice_file import MAX_VOICE_FRAMES, voice_pieces

SHARE_OF_PROMPT = 2  # a voice may fill half of what a prompt may
SHARE_OF_TRAINED = 8  # and an eighth of what the model was trained on, where that is less than its window
WARM_UP_FRAMES = 3


class Listener:
    """One row; the codec it is made from may be stepping meanwhile.

    On a GPU the row is made and tried at once, else when it is needed: there it costs memory and no waiting.
    """

    def __init__(self, codec: Codec, config: CheckpointConfig) -> None:
        self._codec = codec
        self._config = config
        self._row: Codec | None = None
        self._lock = threading.Lock()
        if codec.device.type != "cpu":
            self._warm_up()

    @property
    def most_frames(self) -> int:
        """How long a voice may be."""
        frames = min(MAX_VOICE_FRAMES, self._config.language.context // LARGEST_SHARE // SHARE_OF_PROMPT)
        trained = self._config.trained_positions
        return frames if trained is None else min(frames, trained // SHARE_OF_TRAINED)

    def pieces(self, pcm: Pcm) -> Generator[None, None, VoicePrompt]:
        """A voice from sound, float32 [n] at 24 kHz, as `voice_file.voice_pieces`; any thread may call.

        The pieces belong to the thread that steps, and one voice's end before another's begin.
        """
        return voice_pieces(pcm, self._own_row(), self._config)

    def _own_row(self) -> Codec:
        with self._lock:
            if self._row is None:
                self._row = self._codec.another(1)
            return self._row

    def _warm_up(self) -> None:
        """What a GPU does slowly the first time is done before anybody talks."""
        row = self._own_row()
        for _ in range(WARM_UP_FRAMES):
            row.encode(torch.zeros((1, FRAME_SAMPLES), device=row.device))
        row.reset(0)
        if row.device.type == "cuda":
            torch.cuda.empty_cache()  # modules are made with weights of their own first
