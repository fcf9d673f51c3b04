"""The stepper: heard frames in, spoken frames and text tokens out, for all slots at once. It owns all streaming state.

In: what a conversation chose, one heard frame per live slot. Out: one `Step` per live slot.
Must not know: sessions, queues, time, the web. It meets `engine.ports.Stepper` without importing it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from personaplex_app.audio import FRAME_SAMPLES, FRAME_SECONDS, Pcm, silence
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.model.codec import Codec, CodecRow
from personaplex_app.model.config import TEXT_PADDING, CheckpointConfig
from personaplex_app.model.language import LanguageModel
from personaplex_app.model.listener import Listener
from personaplex_app.model.loading import Weights
from personaplex_app.model.prompts import PromptPlan, VoicePrompt, check_plan_length, plan_prompt
from personaplex_app.model.rebuild import KEPT_FRAMES
from personaplex_app.model.saved_slot import SlotState
from personaplex_app.model.tokenizer import Tokenizer
from personaplex_app.model.transfer import Transfer
from personaplex_app.model.voice_file import VoiceShelf
from personaplex_app.planner import Plan
from personaplex_app.voices import NO_VOICE
from personaplex_app.window import Window

TEXT_ROW = 0
WARM_UP_TOKENS = (0, 10, 25, 50, 100, 200, 400)  # prompt lengths that choose different kernels


@dataclass(frozen=True)
class Opening:
    """What a conversation starts from, ready to be primed into a slot."""

    plan: PromptPlan
    sampling: SamplingSettings
    seed: int
    known_as: tuple[str, str] | None = None  # voice and prompt, where these name it

    @property
    def positions(self) -> int:
        """How many positions priming reads."""
        return self.plan.frames


@dataclass(frozen=True)
class Step:
    """One slot's share of one step.

    Attributes:
        pcm: float32 [1920], what the agent says. text_token: the text token of the same position.
        tokens: int64 [9], text and the 8 agent codes. heard_codes: int64 [8], the user's frame as codes.
        healthy: False where the model's numbers were not finite; the rest means nothing then.
    """

    pcm: Pcm
    text_token: int
    tokens: npt.NDArray[np.int64]
    heard_codes: npt.NDArray[np.int64]
    healthy: bool


@dataclass(frozen=True)
class RunsAs:
    """How a model runs: the numbers of its weights and of its past, and on what. For people."""

    precision: str
    past: str
    where: str


class SpeechStepper:
    """Codec, language model and tokenizer joined, with B slots.

    `open` and `voice_pieces` may run on any thread; all else belongs to the one thread that steps.
    """

    has_words = True

    def __init__(
        self,
        weights: Weights,
        codec: Codec,
        tokenizer: Tokenizer,
        config: CheckpointConfig,
        voices: VoiceShelf,
    ) -> None:
        self.remark = ""  # what whoever runs it should know
        self.summary = ""  # what it is, where, and how long a frame takes there
        self.plan: Plan | None = None  # what it was laid out by
        self.smaller = ""  # flags that need less memory, where it was not planned
        self.runs_as: RunsAs | None = None
        self.identity = ""  # names the checkpoint's files, where there are any
        self.slots = codec.slots
        self.config = config
        self.tokenizer = tokenizer
        self._join_parts(weights, codec)
        self._voices = voices
        self._transfer = Transfer(codec.device) if codec.device.type == "cuda" else None
        self._heard = np.zeros((self.slots, FRAME_SAMPLES), dtype=np.float32)
        self._warm_up()
        self._listener = Listener(self.codec, config)
        self._fresh_codec_row = self._codec_row_after_prompt()

    def _join_parts(self, weights: Weights, codec: Codec) -> None:
        self.language = LanguageModel(weights, codec.slots, trained_positions=self.config.trained_positions)
        self.codec = codec

    def _warm_up(self) -> None:
        """What a GPU does slowly the first time (kernels chosen, graphs recorded) is done before anybody waits."""
        if self.codec.device.type == "cpu":
            return
        self.language.record([self.config.sampling])
        for tokens in WARM_UP_TOKENS:
            plan = plan_prompt(None, [TEXT_PADDING] * tokens, self.config)
            self.language.prime(0, plan, SamplingSettings(), 0)
            self.step({slot: silence() for slot in range(self.slots)})
        for slot in range(self.slots):
            self.release(slot)

    @property
    def voice_names(self) -> list[str]:
        """Voices that lie with the checkpoint."""
        return list(self._voices.names)

    @property
    def voice_seconds(self) -> float:
        """How much of a voice's sound it listens to at most."""
        return self._listener.most_frames * FRAME_SECONDS

    @property
    def context(self) -> int:
        """Positions that the model remembers, prompt included."""
        return self.config.language.context

    @property
    def window(self) -> Window:
        """How far back it remembers: a model that was trained on less than its context begins anew before that."""
        trained = self.config.trained_positions
        return Window(self.context) if trained is None else Window(trained, KEPT_FRAMES)

    def used(self, slot: int) -> int:
        """Positions that a slot has gone through, or that its past was made of when it was made shorter."""
        return self.language.state.position_host[slot]

    def open(self, choices: Choices, voice: VoicePrompt | None = None) -> Opening:
        """Tokenizes the prompt, finds the voice and lays out the plan; `voice` stands in for the named one.

        Raises InvalidInput: unknown voice, prompt too long.
        """
        tokens = self.tokenizer.encode_prompt(choices.prompt)
        known_as = (choices.voice, choices.prompt) if voice is None else None
        if voice is None and choices.voice != NO_VOICE:
            voice = self._voices.load(choices.voice)
        plan = plan_prompt(voice, tokens, self.config)
        check_plan_length(plan, self.context)
        return Opening(plan, choices.sampling, choices.seed, known_as)

    def voice_pieces(self, pcm: Pcm) -> Generator[None, None, VoicePrompt]:
        """A voice from sound, float32 [n] at 24 kHz, a frame a piece; what it returns is handed to `open`.

        Raises InvalidInput for a clip that is too long, too short or silent.
        """
        return self._listener.pieces(pcm)

    def prime(self, slot: int, opening: Opening) -> None:
        """Forces the opening's prompt into a slot; the next step answers its user's first frame."""
        self.language.prime(slot, opening.plan, opening.sampling, opening.seed)
        self.codec.restore(slot, self._fresh_codec_row)

    def prime_pieces(self, slot: int, opening: Opening) -> Iterator[None]:
        """All in one piece."""
        self.prime(slot, opening)
        yield from ()

    def _codec_row_after_prompt(self) -> CodecRow:
        """Encoder as new, decoder after the one frame of forced silence that ends every prompt."""
        silent_codes = torch.tensor(self.config.silence_codes, device=self.codec.device).repeat(self.slots, 1)
        self.codec.reset(0)
        fresh = self.codec.save(0)
        self.codec.decode(silent_codes)
        row = self.codec.save(0)
        for slot in range(self.slots):
            self.codec.restore(slot, fresh)
        return row

    @torch.inference_mode()
    def step(self, heard: Mapping[int, Pcm]) -> dict[int, Step]:
        """One frame for every slot in `heard` (slot -> float32 [1920]); the other slots rest."""
        live = [slot in heard for slot in range(self.slots)]
        for slot, pcm in heard.items():
            self._heard[slot] = pcm
        self.codec.set_live(live)
        user_codes = self.codec.encode(torch.from_numpy(self._heard).to(self.codec.device))
        advance = self.language.advance(user_codes, live)
        spoken = self.codec.decode(advance.codes)
        healthy = advance.healthy & torch.isfinite(spoken.sum(-1))
        return _deliver(heard, spoken, torch.cat([advance.text[:, None], advance.codes], 1), user_codes, healthy)

    def set_sampling(self, slot: int, sampling: SamplingSettings) -> None:
        """New sampling for a slot, from its next step on."""
        self.language.set_sampling(slot, sampling)

    def text(self, token: int) -> bytes:
        """UTF-8 bytes of one text token; empty for padding."""
        return self.tokenizer.token_bytes(token)

    def save(self, slot: int) -> SlotState:
        """A copy of all that a slot holds, made on the device."""
        language, codec = self.language.save(slot), self.codec.save(slot)
        if self._transfer is None:
            return SlotState(language, codec)
        ready = torch.cuda.Event()
        ready.record(torch.cuda.current_stream(self.codec.device))
        return SlotState(language, codec, self._transfer, ready)

    def restore(self, slot: int, saved: SlotState) -> None:
        """Puts a copy into a slot, which goes on as the original did."""
        self.language.restore(slot, saved.language)
        self.codec.restore(slot, saved.codec)
        saved.note_use()

    def release(self, slot: int) -> None:
        """Wipes a slot for the next tenant."""
        self.language.reset(slot)
        self.codec.reset(slot)
        self._heard[slot] = 0.0


def _deliver(
    heard: Mapping[int, Pcm], spoken: Tensor, tokens: Tensor, user_codes: Tensor, healthy: Tensor
) -> dict[int, Step]:
    """Copies to the host once, then hands every live slot its row."""
    pcm = spoken.float().cpu().numpy()
    rows = torch.cat([tokens, user_codes, healthy[:, None].long()], dim=1).cpu().numpy()
    split = tokens.shape[1]
    return {
        slot: Step(pcm[slot], int(rows[slot, TEXT_ROW]), rows[slot, :split], rows[slot, split:-1], bool(rows[slot, -1]))
        for slot in heard
    }
