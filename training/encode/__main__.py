"""`python -m training.encode`: codes of everything that is said, as a call would have them.

In: `WORK/speech`, the codec. Out: `WORK/codes`; shelves that are there are left alone.
Must not know: personas. A user track is mixed whole, sent through one room, microphone and noise, and encoded in one
stream, so the language model is trained on what it will hear.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from random import Random

import numpy as np
import torch
from moshi.models.compression import MimiModel
from torch import Tensor

from training.codec.effects import heard
from training.codec.in_a_call import encode
from training.codec.mimi import load_mimi
from training.devices import exact, prepare
from training.encode.shelves import (
    AGENTS,
    Agents,
    Codes,
    Constants,
    Rendering,
    read_agents,
    tracks_name,
    write_agents,
    write_constants,
    write_tracks,
)
from training.journal import Journal
from training.places import Places, parser
from training.sizes import Sizes, size
from training.speech.shelf import Bank, Utterance, read_bank
from training.speech.speakers import Speakers, draw_stretch, stretched, stretched_samples
from training.talks.tracks import Track, TrackMaker

FRAME = 1920
LEAD_FRAMES = 36  # of silence before an agent's sentence: Mimi's past is 32
TAIL_FRAMES = 2
AGENTS_TOGETHER = 64
UNKNOWN_FRAMES = 25  # of a sentence that no agent says
NOTED_EVERY_SHELVES = 20


@torch.inference_mode()
def encode_agents(bank: Bank, mimi: MimiModel, device: torch.device) -> Agents:
    """Every agent's sentence after a long silence."""
    chosen = [index for index, one in enumerate(bank.utterances) if one.who == "agent"]
    chosen.sort(key=lambda index: bank.utterances[index].samples)
    pieces: list[Codes] = []
    renderings: list[Rendering] = []
    at = 0
    for first in range(0, len(chosen), AGENTS_TOGETHER):
        part = [bank.utterances[index] for index in chosen[first : first + AGENTS_TOGETHER]]
        codes = encode(mimi, _after_silence(bank, part, device)).to(torch.int16).cpu().numpy()
        for row, one in enumerate(part):
            frames = -(-one.samples // FRAME) + TAIL_FRAMES
            words = [int(start * 12.5) for start in one.word_starts]
            renderings.append(Rendering(one.voice, one.text, at, frames, words, chosen[first + row]))
            pieces.append(codes[row, :, LEAD_FRAMES : LEAD_FRAMES + frames])
            at += frames
    return Agents(np.concatenate(pieces, 1), renderings)


def _after_silence(bank: Bank, part: list[Utterance], device: torch.device) -> Tensor:
    longest = max(-(-one.samples // FRAME) for one in part)
    sound = torch.zeros(len(part), (LEAD_FRAMES + longest + TAIL_FRAMES) * FRAME)
    for row, one in enumerate(part):
        sound[row, LEAD_FRAMES * FRAME :][: one.samples] = torch.from_numpy(bank.pcm(one))
    return sound.to(device)


@torch.inference_mode()
def encode_constants(mimi: MimiModel, device: torch.device) -> Constants:
    """What silence and a 440 Hz tone settle to."""
    seconds = torch.arange(100 * FRAME, device=device) / 24_000
    codes = encode(mimi, torch.stack([torch.zeros_like(seconds), 0.5 * torch.sin(2 * torch.pi * 440 * seconds)]))
    settled = codes[:, :, -40:].mode(-1).values
    return Constants(settled[0].tolist(), settled[1].tolist())


def track_maker(bank: Bank, agents: Agents) -> TrackMaker:
    """Draws tracks of what is on the shelves."""
    speakers = Speakers(bank)
    lengths: dict[str, list[int]] = defaultdict(list)
    for rendering in agents.renderings:
        lengths[rendering.text].append(rendering.frames)

    def pick(text: str, rng: Random) -> tuple[int, int, float] | None:
        key = speakers.saying(text, rng)
        if key is None:
            return None
        stretch = draw_stretch(rng)
        return key, stretched_samples(bank.utterances[key].samples, stretch), stretch

    return TrackMaker(pick, _mean_of(lengths))


def _mean_of(lengths: dict[str, list[int]]) -> Callable[[str], int]:
    means = {text: round(sum(each) / len(each)) for text, each in lengths.items()}
    return lambda text: means.get(text, UNKNOWN_FRAMES)


class TrackEncoder:
    """Mixes and encodes tracks; the bank lies on the device whole."""

    def __init__(self, bank: Bank, mimi: MimiModel, device: torch.device) -> None:
        self._sound = torch.from_numpy(bank.sound).to(device)
        self._bank, self._mimi, self._device = bank, mimi, device

    @torch.inference_mode()
    def encode(self, tracks: list[Track]) -> Codes:
        """int16 [n, 8, T]."""
        noisy, _ = heard(torch.stack([self._mixed(track) for track in tracks]))
        codes = encode(self._mimi, noisy.clamp(-1, 1))
        return np.asarray(codes.to(torch.int16).cpu().numpy())

    def _mixed(self, track: Track) -> Tensor:
        """float32 [T * 1920], every turn a little louder or softer than the others."""
        sound = torch.zeros(track.frames * FRAME, device=self._device)
        for turn in track.turns:
            one = self._bank.utterances[turn.key]
            piece = stretched(self._sound[one.start : one.start + one.samples].float() / 32767, turn.stretch)
            at = turn.start * FRAME + turn.offset
            gain = 10 ** (float(torch.empty(()).uniform_(-3, 3)) / 20)
            sound[at : at + len(piece)] += gain * piece[: len(sound) - at]
        return sound


def main(arguments: list[str] | None = None) -> None:
    chosen = parser(__doc__).parse_args(arguments)
    places, sizes = Places(chosen.work), size(chosen.size, chosen.pace)
    device = prepare(sizes.seed)
    exact()
    with Journal(places.work, "encode") as journal:
        bank = read_bank(places.speech)
        mimi = load_mimi(places.codec, sizes.codec, device)
        places.codes.mkdir(parents=True, exist_ok=True)
        if not (places.codes / f"{AGENTS}.jsonl").exists():
            write_constants(places.codes, encode_constants(mimi, device))
            agents = encode_agents(bank, mimi, device)
            write_agents(places.codes, agents)
            journal.note("agents", renderings=len(agents.renderings), frames=agents.codes.shape[1])
        _encode_tracks(places, sizes, bank, mimi, device, chosen.seconds, journal)


def _encode_tracks(
    places: Places,
    sizes: Sizes,
    bank: Bank,
    mimi: MimiModel,
    device: torch.device,
    stop_after: float | None,
    journal: Journal,
) -> None:
    maker, encoder = track_maker(bank, read_agents(places.codes)), TrackEncoder(bank, mimi, device)
    began = journal.seconds
    for number in range(-(-sizes.tracks // sizes.track_batch)):
        enough = number * sizes.track_batch >= sizes.least_tracks
        if enough and journal.seconds - began > sizes.track_seconds:
            break
        name = tracks_name(places.codes, number)
        if name.with_suffix(".jsonl").exists():
            continue
        if stop_after is not None and journal.seconds > stop_after:
            journal.note("stopped", shelves=number)
            return
        torch.manual_seed(1000 * sizes.seed + number)
        rng = Random(f"tracks-{sizes.seed}-{number}")
        tracks = [maker.draw(rng, sizes.track_frames) for _ in range(sizes.track_batch)]
        write_tracks(name, encoder.encode(tracks), tracks)
        if number % NOTED_EVERY_SHELVES == 0:
            journal.note("tracks", shelves=number + 1, turns=sum(len(track.turns) for track in tracks))
    places.done("encode").write_text("", encoding="utf-8")


if __name__ == "__main__":
    main()
