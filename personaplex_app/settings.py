"""Settings: environment and flags become one frozen value. The only reader of the environment.

In: a mapping of variables, command-line words. Out: `Settings`, or InvalidInput in one sentence.
Must not know: torch, the web, what the settings do.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from personaplex_app.errors import InvalidInput
from personaplex_app.network import SPACE_VARIABLE, Network, read_network

CACHE_VARIABLE = "PERSONAPLEX_CACHE"
REVISION_VARIABLE = "PERSONAPLEX_REVISION"
ORIGINS_VARIABLE = "PERSONAPLEX_ORIGINS"
TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
TOKEN_FORM = "token_form"
LOOPBACK = "127.0.0.1"
MOST_SLOTS = 256
MOST_THREADS = 256
LONGEST_CALL_MINUTES = 24 * 60
LONGEST_DRAIN_SECONDS = 3600
MOST_PARKING_MB = MOST_RECORDINGS_MB = 1 << 20
LEAST_GPU_GB, MOST_GPU_GB = 1, 4096
PRECISIONS = ("auto", "float32", "bfloat16", "int8", "int4")


def environment() -> Mapping[str, str]:
    """The process's variables."""
    return os.environ


def cache_directory(variables: Mapping[str, str]) -> Path:
    """Where conversions are kept: `PERSONAPLEX_CACHE`, else the user's cache folder.

    Raises InvalidInput where the user has no home folder to keep them in.
    """
    named = variables.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    try:
        return Path(variables.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "personaplex_app"
    except RuntimeError:  # a user that the system does not know, without HOME
        sentence = f"This user has no home folder: set {CACHE_VARIABLE} to a folder that can be written."
        raise InvalidInput(sentence) from None


def hub_token(variables: Mapping[str, str]) -> str | None:
    """The Hugging Face token, if the environment holds one.

    Raises InvalidInput with the code TOKEN_FORM where it cannot be one; the sentence does not show it.
    """
    for name in TOKEN_VARIABLES:
        token = variables.get(name, "").strip()
        if token and not all("!" <= letter <= "~" for letter in token):
            raise InvalidInput(
                f"{name} holds no token: a space, a line break or a character outside ASCII is in it. Copy it anew "
                "from https://huggingface.co/settings/tokens, or unset it.",
                code=TOKEN_FORM,
            )
        if token:
            return token
    return None


@dataclass(frozen=True)
class EngineChoice:
    """Which model runs where.

    Attributes:
        checkpoint: `demo`, `mini`, `random`, `hub` or a directory; None picks `hub` where a GPU and a token are, else
            `demo`. device: `auto`, `cpu` or `cuda`.
        precision: `auto`, `float32`, `bfloat16`, or on a GPU `int8` or `int4`; `auto` is float32 for the miniatures,
            else bfloat16 or what a GPU has room for.
        slots: None lets the planner pick on a GPU, and is 1 elsewhere.
        threads: for arithmetic on the CPU. token, revision: for the Hub.
        kv_cache: `model` (the weights' type), `int8`, half as large, on a GPU, or `auto`. plain: never the fast engine.
        gpu_memory_bytes: what this process may take of the GPU's memory, None for all that is free.
        cpu_offload: layers that do not fit the GPU stream from host memory.
        purpose: `talk` must keep up with time, `render` need not, `bench` is told nothing but what is automatic.
    """

    checkpoint: str | None
    cache: Path
    device: str = "auto"
    precision: str = "auto"
    slots: int | None = None
    allow_surplus: bool = False
    threads: int = 1
    token: str | None = None
    revision: str | None = None
    kv_cache: str = "auto"
    plain: bool = False
    gpu_memory_bytes: int | None = None
    cpu_offload: bool = False
    purpose: str = "talk"


@dataclass(frozen=True)
class Settings:
    """How the page is served.

    Attributes:
        engine: `model` or `echo`. auth: (user, password) or None. network: the way to the visitors.
        origins: pages besides our own that may use our routes. call_seconds: how long one talk may last.
        drain_seconds: how long talks may go on after SIGTERM. parking_bytes: host memory for talks that were cut off.
        recordings_bytes: host memory for recordings of talks.
    """

    host: str
    port: int
    engine: str
    model: EngineChoice
    auth: tuple[str, str] | None
    share: bool
    public: bool
    plain_microphone: bool
    network: Network
    origins: tuple[str, ...]
    call_seconds: float
    drain_seconds: float
    parking_bytes: int
    recordings_bytes: int


def add_serve_flags(parser: argparse.ArgumentParser) -> None:
    """Flags of `serve` and of `app.py`."""
    parser.add_argument("--host", help=f"address to listen on (default: GRADIO_SERVER_NAME, else {LOOPBACK})")
    parser.add_argument("--port", type=int, help="default: GRADIO_SERVER_PORT, else 7860")
    add_slots_flag(parser)
    parser.add_argument("--engine", choices=("model", "echo"), default="model", help="echo: hear yourself, no model")
    parser.add_argument("--auth", metavar="USER:PASS", help="ask visitors for a name and a password")
    parser.add_argument("--share", action="store_true", help="a public link through gradio's tunnel")
    parser.add_argument(
        "--plain-microphone", action="store_true", help="no echo cancellation, noise suppression or gain (headphones!)"
    )
    parser.add_argument("--public", action="store_true", help="allow a public address without --auth")
    parser.add_argument("--call-minutes", type=float, default=30, help="how long one talk may last (default: 30)")
    parser.add_argument(
        "--drain-seconds", type=float, default=30, help="how long talks may go on after SIGTERM (default: 30)"
    )
    parser.add_argument(
        "--parking-mb", type=int, default=2048, help="host memory for talks whose connection was lost (default: 2048)"
    )
    parser.add_argument(
        "--recordings-mb",
        type=int,
        default=1024,
        help="host memory for talks that visitors have recorded, about 5.5 a minute; 0: none are (default: 1024)",
    )


def add_slots_flag(parser: argparse.ArgumentParser) -> None:
    """The flag of whatever lays out lines."""
    parser.add_argument(
        "--slots", type=int, help="how many can talk at once (default: what the GPU carries, 1 on a CPU)"
    )


def read_settings(flags: argparse.Namespace, variables: Mapping[str, str]) -> Settings:
    """Flags win over variables; raises InvalidInput where they do not fit together."""
    space = bool(variables.get(SPACE_VARIABLE))
    host = flags.host or variables.get("GRADIO_SERVER_NAME") or LOOPBACK
    open_to_others = flags.share or not is_loopback(host)
    settings = Settings(
        host=host,
        port=flags.port if flags.port is not None else _port(variables.get("GRADIO_SERVER_PORT")),
        engine=flags.engine,
        model=engine_choice(flags, variables, flags.slots),
        auth=_auth(flags.auth),
        share=flags.share,
        public=flags.public or space,
        plain_microphone=flags.plain_microphone,
        network=read_network(variables, open_to_others, hub_token(variables)),
        origins=_origins(variables.get(ORIGINS_VARIABLE, "")),
        call_seconds=60 * _within("--call-minutes", flags.call_minutes, 1, LONGEST_CALL_MINUTES),
        drain_seconds=_within("--drain-seconds", flags.drain_seconds, 0, LONGEST_DRAIN_SECONDS),
        parking_bytes=int(_within("--parking-mb", flags.parking_mb, 0, MOST_PARKING_MB)) << 20,
        recordings_bytes=int(_within("--recordings-mb", flags.recordings_mb, 0, MOST_RECORDINGS_MB)) << 20,
    )
    _check(settings)
    return settings


def engine_choice(
    flags: argparse.Namespace, variables: Mapping[str, str], slots: int | None, purpose: str = "talk"
) -> EngineChoice:
    """What `add_model_flags` and the environment say of the model; raises InvalidInput."""
    if slots is not None and not 1 <= slots <= MOST_SLOTS:
        raise InvalidInput(f"--slots must be from 1 to {MOST_SLOTS}, not {slots}.")
    if not 1 <= flags.threads <= MOST_THREADS:
        raise InvalidInput(f"--threads must be from 1 to {MOST_THREADS}, not {flags.threads}.")
    return EngineChoice(
        checkpoint=flags.checkpoint,
        cache=cache_directory(variables),
        device=flags.device,
        precision=flags.precision,
        slots=slots,
        allow_surplus=flags.allow_surplus,
        threads=flags.threads,
        token=hub_token(variables),
        revision=variables.get(REVISION_VARIABLE) or None,
        kv_cache=flags.kv_cache,
        plain=flags.plain_engine,
        gpu_memory_bytes=_gpu_memory(flags.gpu_memory_gb),
        cpu_offload=flags.cpu_offload,
        purpose=purpose,
    )


def _gpu_memory(gib: float | None) -> int | None:
    return None if gib is None else int(_within("--gpu-memory-gb", gib, LEAST_GPU_GB, MOST_GPU_GB) * (1 << 30))


def _check(settings: Settings) -> None:
    if not 0 <= settings.port <= 65535:
        raise InvalidInput(f"The port must be from 0 to 65535, not {settings.port}.")
    if (settings.share or not is_loopback(settings.host)) and not (settings.auth or settings.public):
        where = "--share" if settings.share else f"--host {settings.host}"
        raise InvalidInput(f"{where} lets anybody in: add --auth USER:PASS, or --public if that is what you want.")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _port(text: str | None) -> int:
    if not text:
        return 7860
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(f"GRADIO_SERVER_PORT must be a number, not {text!r}.") from None


def _auth(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    user, colon, password = text.partition(":")
    if not (user and colon and password):
        raise InvalidInput("--auth must be USER:PASS, both not empty.")
    return user, password


def _within(flag: str, value: float, low: float, high: float) -> float:
    if not low <= value <= high:  # not-a-number is within nothing
        raise InvalidInput(f"{flag} must be from {low} to {high}, not {value:g}.")
    return value


def _origins(text: str) -> tuple[str, ...]:
    """Pages besides our own, as browsers name them: `https://host`, separated by commas."""
    origins = tuple(part.strip().rstrip("/").lower() for part in text.split(",") if part.strip())
    for origin in origins:
        if not origin.startswith(("https://", "http://")) or origin.count("/") != 2:
            raise InvalidInput(f"{ORIGINS_VARIABLE} must list origins such as https://example.org, not {origin!r}.")
    return origins


def add_model_flags(parser: argparse.ArgumentParser, checkpoint: str | None = None) -> None:
    """Flags that choose the model and where it runs."""
    parser.add_argument("--checkpoint", default=checkpoint, help="demo, mini, random, hub, or a directory")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--precision", choices=PRECISIONS, default="auto", help="int8 and int4: on a GPU, smaller")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads for arithmetic (default: 1)")
    parser.add_argument(
        "--kv-cache", choices=("auto", "model", "int8"), default="auto", help="int8: on a GPU, half the memory a talk"
    )
    parser.add_argument("--gpu-memory-gb", type=float, metavar="N", help="take no more of the GPU's memory than this")
    parser.add_argument("--cpu-offload", action="store_true", help="layers that do not fit the GPU stay in host memory")
    parser.add_argument("--plain-engine", action="store_true", help="on a GPU: without the compiled kernels")
    parser.add_argument("--allow-surplus", action="store_true", help="load a checkpoint without its unknown tensors")
