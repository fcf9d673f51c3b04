"""`talk --url URL`: a talk from the terminal, with a sound file or a microphone.

In: parsed flags. Out: words on stdout as they come, status lines on stderr, and a WAV of what was heard.
Must not know: the protocol; how a server works.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from personaplex_app.audio import Pcm
from personaplex_app.controls import SamplingSettings, parse_seed
from personaplex_app.errors import InvalidInput, SessionEnded
from personaplex_app.render_command import add_sampling_flags, check_writable, sampling_from_flags
from personaplex_app.voices import check_voice_name

if TYPE_CHECKING:
    from personaplex_app.client import Talk
    from personaplex_app.live_sound import LiveSound
    from personaplex_app.terminal_talk import Ear, Screen

SAMPLING = ("audio_temperature", "text_temperature", "audio_top_k", "text_top_k", "repetition_penalty")
GOOD_ENDS = ("stopped", "idle", "limit")


def add_talk(commands: Any) -> None:
    """Adds the subcommand with its flags."""
    parser = commands.add_parser("talk", help="talk with a served persona from the terminal")
    parser.add_argument("--url", required=True, help="the page's address, such as http://127.0.0.1:7860")
    parser.add_argument("--auth", metavar="USER:PASS", help="where the server asks for a name and a password")
    parser.add_argument("--in", dest="input", type=Path, metavar="F.wav", help="say this instead of the microphone")
    parser.add_argument(
        "--out", dest="output", type=Path, metavar="F.wav", help="keep what was heard, second by second"
    )
    parser.add_argument("--seconds", type=float, help="how long (default: until both have finished, or Ctrl-C)")
    parser.add_argument("--prompt", help="the persona's text (default: none)")
    parser.add_argument("--voice", help="the name of one of the server's voices (default: the server's)")
    parser.add_argument("--seed", help="a whole number (default: a fresh one)")
    add_sampling_flags(parser)
    parser.add_argument(
        "--no-loop-guard", action="store_true", help="leave the sampling alone where the persona goes round in circles"
    )
    parser.set_defaults(run=run_talk)


@dataclass(frozen=True)
class Plan:
    """What the flags ask for, checked: `sound` is None for the microphone, `seconds` None for as long as it takes."""

    url: str
    auth: tuple[str, str] | None
    wishes: dict[str, Any]
    sound: Pcm | None
    output: Path | None
    seconds: float | None

    @property
    def live(self) -> bool:
        """Whether a loudspeaker is needed."""
        return self.sound is None or self.output is None


def run_talk(flags: argparse.Namespace) -> None:
    """Checks what can be checked first, then talks."""
    asyncio.run(hold_talk(read_plan(flags)))


def read_plan(flags: argparse.Namespace) -> Plan:
    """Raises InvalidInput for whatever cannot be used."""
    from personaplex_app.client.address import parse_address, parse_login
    from personaplex_app.sound_files import read_sound

    url = parse_address(flags.url).page
    if flags.seconds is not None and not 0 < flags.seconds <= 24 * 3600:
        raise InvalidInput(f"--seconds must be more than 0 and a day at most, not {flags.seconds:g}.")
    if flags.output is not None:
        check_writable(flags.output)
    sound = read_sound(flags.input) if flags.input is not None else None
    return Plan(url, parse_login(flags.auth), read_wishes(flags), sound, flags.output, flags.seconds)


def read_wishes(flags: argparse.Namespace) -> dict[str, Any]:
    """Only what was named: all else is the server's to choose. Raises InvalidInput."""
    sampling_from_flags(flags, SamplingSettings())
    named = (flags.temperature_audio, flags.temperature_text, flags.top_k_audio, flags.top_k_text)
    wishes = dict(zip(SAMPLING, (*named, flags.repetition_penalty), strict=True))
    if flags.greedy:
        wishes |= {"audio_temperature": 0.0, "text_temperature": 0.0, "repetition_penalty": 1.0}
    wishes |= {"prompt": flags.prompt}
    if flags.voice is not None:
        wishes["voice"] = check_voice_name(flags.voice)
    if flags.seed is not None:
        wishes["seed"] = parse_seed(flags.seed)
    if flags.no_loop_guard:
        wishes["loop_guard"] = False
    return {name: value for name, value in wishes.items() if value is not None}


async def hold_talk(plan: Plan) -> None:
    """Connects, talks, says how it went; raises errors of our tree."""
    from personaplex_app.client import connect
    from personaplex_app.live_sound import LiveSound
    from personaplex_app.terminal_talk import Screen

    screen = Screen(sys.stdout, sys.stderr)
    with contextlib.ExitStack() as open_things:
        live = open_things.enter_context(LiveSound(plan.sound is None)) if plan.live else None
        interrupted = open_things.enter_context(_interruption())
        async with connect(plan.url, plan.auth) as line, line.talk(**plan.wishes) as talk:  # type: ignore[misc]
            open_things.callback(screen.close)
            await _talk(plan, talk, screen, live, interrupted)


async def _talk(plan: Plan, talk: Talk, screen: Screen, live: LiveSound | None, interrupted: asyncio.Event) -> None:
    from personaplex_app.sound_files import write_wav
    from personaplex_app.terminal_talk import Ear

    ear = Ear(talk, live)
    following = [asyncio.create_task(screen.follow(talk)), asyncio.create_task(ear.listen())]
    speaking = asyncio.create_task(_speak(plan, talk, ear, live))
    stopping = asyncio.create_task(interrupted.wait())
    try:
        await asyncio.wait([speaking, stopping], return_when=asyncio.FIRST_COMPLETED)
        await talk.stop()
    finally:
        for task in (speaking, stopping):
            task.cancel()
        results = await asyncio.gather(speaking, *following, return_exceptions=True)
        if plan.output is not None and ear.begun:
            write_wav(plan.output, ear.timeline.track(ear.seconds))
    _judge(talk, results)
    screen.tell(talk.ended.sentence if talk.ended else "")
    screen.tell(_summary(talk, ear))


async def _speak(plan: Plan, talk: Talk, ear: Ear, live: LiveSound | None) -> None:
    from personaplex_app.terminal_talk import say_live, say_sound

    await talk.started()
    ear.begin()
    if plan.sound is not None:
        await say_sound(talk, ear, plan.sound, plan.seconds)
    elif live is not None:
        await say_live(talk, live, plan.seconds)


@contextlib.contextmanager
def _interruption() -> Iterator[asyncio.Event]:
    """An event that Ctrl-C sets: a talk ends by it, and is then written and told as any other."""
    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
        loop.add_signal_handler(signal.SIGINT, interrupted.set)
    try:
        yield interrupted
    finally:
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.remove_signal_handler(signal.SIGINT)


def _judge(talk: Talk, results: list[BaseException | None]) -> None:
    """Raises what ended the talk, unless that was the visitor, the clock, or the end of what there was to say."""
    from personaplex_app.client.conversation import error_of

    if talk.ended is not None:
        if talk.ended.code not in GOOD_ENDS:
            raise error_of(talk.ended.code, talk.ended.sentence)
        return
    for error in results:
        stopped = isinstance(error, SessionEnded) and error.code in GOOD_ENDS
        if error is not None and not stopped and not isinstance(error, asyncio.CancelledError):
            raise error


def _summary(talk: Talk, ear: Ear) -> str:
    if not ear.begun:
        return "No talk was held."
    timeline, late = ear.timeline, talk.pace.late if talk.pace else 0
    parts = [f"{ear.seconds:.1f} s", f"{timeline.gaps} gaps, {timeline.gap_seconds:.2f} s in all"]
    if talk.round_trip_seconds is not None:
        parts.append(f"round trip {1000 * talk.round_trip_seconds:.0f} ms")
    if talk.unsent:
        parts.append(f"{talk.unsent} pieces not sent")
    if late:
        parts.append(f"{late} pieces said late by this machine")
    return " · ".join(parts)
