"""The stepper for a GPU: codec and language model in kernels of our own, a frame replayed as one graph.

In: what a conversation chose, one heard frame per live slot. Out: one `Step` per live slot.
Must not know: sessions, queues, time, the web. From outside it is `model/stepper.py`'s.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import cast

import torch

from personaplex_app.audio import Pcm, silence
from personaplex_app.controls import SamplingSettings
from personaplex_app.model.byte_progress import Report
from personaplex_app.model.codec import Codec
from personaplex_app.model.config import CODEBOOKS, TEXT_PADDING, CheckpointConfig
from personaplex_app.model.fast.codec import FastCodec
from personaplex_app.model.fast.frame import FrameRunner
from personaplex_app.model.fast.language import BUCKETS, FastLanguageModel, bucket_for, every_shape
from personaplex_app.model.language import LanguageModel
from personaplex_app.model.loading import Weights
from personaplex_app.model.prompts import plan_prompt
from personaplex_app.model.stepper import Opening, SpeechStepper, Step
from personaplex_app.model.tokenizer import Tokenizer
from personaplex_app.model.voice_file import VoiceShelf

TOKENS = 1 + CODEBOOKS
WARM_UP_TOKENS = (0, 10, 25, 70, 100, 150)  # prompts that end in pieces of different sizes


class FastStepper(SpeechStepper):
    """As `SpeechStepper`, for a CUDA GPU.

    Args:
        codec: a fast one has as many rows as the slots' bucket.
        cache: element type of the past; `torch.int8` halves it. report: takes a line about what is being done.

    Raises where Triton or the GPU cannot do it.
    """

    def __init__(
        self,
        weights: Weights,
        codec: Codec | FastCodec,
        tokenizer: Tokenizer,
        config: CheckpointConfig,
        voices: VoiceShelf,
        cache: torch.dtype | None = None,
        report: Report = lambda line: None,
    ) -> None:
        self._cache, self._report = cache, report
        super().__init__(weights, cast("Codec", codec), tokenizer, config, voices)

    def _join_parts(self, weights: Weights, codec: Codec | FastCodec) -> None:
        fast = FastLanguageModel(weights, codec.slots, self._cache, recorded=False)
        self.language = cast("LanguageModel", fast)
        made = codec if isinstance(codec, FastCodec) else FastCodec.of(codec, bucket_for(codec.slots))
        self.codec = cast("Codec", made)
        self._frame = FrameRunner(fast, cast("FastCodec", self.codec))

    def _warm_up(self) -> None:
        """Compiles all kernels, records every shape of every bucket, warms prompts of several lengths up."""
        torch.backends.cuda.enable_cudnn_sdp(False)  # it plans anew for every length of a prompt: 50 ms each
        sizes = [size for size in BUCKETS if size <= bucket_for(self.slots)]
        for index, size in enumerate(sizes):
            self._report(f"Compiling and recording frames: {index} of {len(sizes)} numbers of lines")
            for shape in every_shape(size, self.config.language.text_card):
                self._frame.record(shape)
        self.remark = self._frame.remark
        for tokens in WARM_UP_TOKENS:
            self.language.prime(0, plan_prompt(None, [TEXT_PADDING] * tokens, self.config), SamplingSettings(), 0)
            self.step({0: silence()})
            self.release(0)
            cast("FastLanguageModel", self.language).pool.trim()
            torch.cuda.empty_cache()

    def prime(self, slot: int, opening: Opening) -> None:
        """Forces the opening's prompt into a slot; the next step answers its user's first frame."""
        for _ in self.prime_pieces(slot, opening):
            pass

    def prime_pieces(self, slot: int, opening: Opening) -> Iterator[None]:
        """The same in pieces; a persona that was here before is ready at once."""
        language = cast("FastLanguageModel", self.language)
        yield from language.prime_pieces(slot, opening.plan, opening.sampling, opening.seed, opening.known_as)
        self.codec.restore(slot, self._fresh_codec_row)

    def keeps(self, known_as: Hashable) -> bool:
        """Whether a talk whose opening is `known_as` this would begin at once; any thread may ask."""
        return known_as in cast("FastLanguageModel", self.language).prompts

    def has_room(self, opening: Opening) -> bool:
        """Whether one more prompt could be kept and nothing that is kept had to go for it."""
        return cast("FastLanguageModel", self.language).has_room(opening.plan)

    def prepare_pieces(self, opening: Opening) -> Iterator[None]:
        """Reads a prompt in pieces and keeps it, without any slot; it is the first to go when room is wanted."""
        if opening.known_as is not None:
            language = cast("FastLanguageModel", self.language)
            yield from language.prepare_pieces(opening.plan, opening.known_as)

    def parts_ms(self, rows: int) -> dict[str, list[float]]:
        """Milliseconds of a step's parts for so many rows, each by itself: a recorded step has no seams."""
        return self._frame.parts_ms(rows)

    def step(self, heard: Mapping[int, Pcm]) -> dict[int, Step]:
        """One frame for every slot in `heard` (slot -> float32 [1920]); the other slots rest."""
        live = [slot in heard for slot in range(self.slots)]
        shared, numbers = self._frame.run(heard, live)
        sound, tokens = shared.copy(), numbers.astype("int64")  # once for all: the next frame overwrites what was read
        said, heard_codes = tokens[:, :TOKENS], tokens[:, TOKENS : TOKENS + CODEBOOKS]
        text, healthy = tokens[:, 0].tolist(), tokens[:, -1].tolist()
        return {
            slot: Step(sound[slot], text[slot], said[slot], heard_codes[slot], bool(healthy[slot])) for slot in heard
        }
