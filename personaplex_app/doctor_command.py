"""`doctor`: can a talk be had on this machine, and for each thing wrong the one line that mends it.

In: the flags of `serve` that choose a model. Out: a line a finding on stdout, exit code 0 where a talk can be had, 1
where something must be mended first. Nothing is loaded, changed or kept; no secret is shown.
Must not know: how anything is judged.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from personaplex_app import doctor_checks as checks
from personaplex_app import doctor_machine as machine
from personaplex_app.cards import GIB
from personaplex_app.doctor_checks import NOTE, OK, WRONG, Finding, Gpu
from personaplex_app.errors import InvalidInput
from personaplex_app.settings import (
    CACHE_VARIABLE,
    TOKEN_FORM,
    TOKEN_VARIABLES,
    EngineChoice,
    add_model_flags,
    add_slots_flag,
    engine_choice,
    environment,
)

if TYPE_CHECKING:
    from personaplex_app.model.config import CheckpointConfig

DEMO, HUB, RANDOM = "demo", "hub", "random"
TOYS = (DEMO, "mini")
LARGE_NUMBERS = 1e9
WORKS = "What works here: "


def add_doctor(commands: Any) -> None:
    """Adds the subcommand with its flags."""
    parser = commands.add_parser("doctor", help="can a talk be had here, and what mends what is wrong")
    add_model_flags(parser)
    add_slots_flag(parser)
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run=run_doctor)


def run_doctor(flags: argparse.Namespace) -> int:
    """Looks at everything, says it, returns the exit code."""
    choice, flaw = choose(flags, environment())
    found = []
    seen = (finding for finding in examine(choice) if not (flaw and finding.name == "token"))
    for finding in itertools.chain(flaw, seen):
        found.append(finding)
        if not flags.json:
            print(line_of(finding), flush=True)
    wrong = sum(finding.state == WRONG for finding in found)
    if flags.json:
        print(json.dumps({"ok": not wrong, "findings": [asdict(finding) for finding in found]}, indent=1))
    else:
        print(f"\n{verdict(wrong, given(flags), live=not choice.cpu_offload)}")
    return 1 if wrong else 0


def choose(flags: argparse.Namespace, variables: Mapping[str, str]) -> tuple[EngineChoice, list[Finding]]:
    """What was chosen; a token that is none is a finding, and left out."""
    try:
        return engine_choice(flags, variables, flags.slots), []
    except InvalidInput as error:
        if error.code != TOKEN_FORM:
            raise
        said, _, mend = error.sentence.partition(". ")
        without = {name: value for name, value in variables.items() if name not in TOKEN_VARIABLES}
        found = [Finding("token", WRONG, f"{said}.", mend)]
        return engine_choice(flags, without, flags.slots), found


def given(flags: argparse.Namespace) -> list[str]:
    """The words that choose the model as `flags` do, without what is so anyhow."""
    plain, words = argparse.ArgumentParser(), []
    add_model_flags(plain)
    add_slots_flag(plain)
    for name, usual in vars(plain.parse_args([])).items():
        value = getattr(flags, name)
        if value != usual:
            words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    return words


def line_of(finding: Finding) -> str:
    """One line, and under it the one that mends."""
    said = f"{finding.state:<6}{finding.name:<12} {finding.sentence}"
    return f"{said}\n{'':<18} mend: {finding.mend}" if finding.state == WRONG else said


def verdict(wrong: int, words: Sequence[str] = (), live: bool = True) -> str:
    """The last line; with the command where nothing is wrong.

    Args:
        words: the flags that were given. live: whether a talk may be promised.
    """
    if not wrong:
        start = shlex.join(["scripts/start", *words])
        if live:
            return f"A talk can be had here: {start}"
        return f"Offline render works here; whether a talk keeps up with time only the start can measure: {start}"
    return "One thing has to be mended first." if wrong == 1 else f"{wrong} things have to be mended first."


def examine(choice: EngineChoice) -> Iterator[Finding]:
    """All findings, the quick ones first."""
    yield checks.python(sys.version_info[:2])
    missing = machine.missing_packages()
    yield checks.packages(missing)
    seen = machine.see_gpu()
    name = pick_name(choice, seen)
    large = is_large(choice, name)
    wanted = choice.device != "cpu"
    on_gpu = wanted and seen.name is not None
    yield from checks.gpu(seen, large, choice.device == "cuda") if wanted or seen.torch is None else [_on_cpu(large)]
    compiled = on_gpu and not (choice.plain or choice.cpu_offload)
    variables = environment()
    yield checks.compiler(machine.find_compiler(variables), machine.find_header(), compiled)
    yield checks.cache(str(choice.cache), machine.is_writable(choice.cache), CACHE_VARIABLE)
    if seen.torch is None or "huggingface_hub" in missing or "moshi" in missing:
        return  # nothing more can be seen before that is mended
    yield _host_memory()
    found = list(_files(choice, name))
    yield from found
    refused = any(finding.name == "checkpoint" and finding.state == WRONG for finding in found)
    if refused or (choice.device == "cuda" and seen.name is None):
        return  # which was said, and is what a start would say
    planned = plan(choice, name)
    if planned.state == WRONG or (on_gpu and name not in TOYS):
        yield planned


def pick_name(choice: EngineChoice, seen: Gpu) -> str:
    """The checkpoint that a start would take."""
    if choice.checkpoint is not None:
        return choice.checkpoint
    return HUB if choice.token and seen.name is not None and choice.device != "cpu" else DEMO


def is_large(choice: EngineChoice, name: str) -> bool:
    """Whether a CPU is far too slow for the model; a checkpoint that cannot be read is told of elsewhere."""
    if name in TOYS:
        return False
    try:
        language = _config(choice, name).language
    except (InvalidInput, OSError):
        return False
    return 12 * language.layers * language.dim**2 > LARGE_NUMBERS


def _on_cpu(large: bool) -> Finding:
    if not large:
        return Finding("gpu", NOTE, "Not looked for: --device cpu.")
    said = "Not looked for: --device cpu. A model of this size is far from real time on a CPU."
    return Finding("gpu", WRONG, said, "Leave --device cpu out, or take --checkpoint demo; offline render works.")


def _host_memory() -> Finding:
    from personaplex_app.model.host_memory import available_bytes

    return checks.host_memory(available_bytes())


def _files(choice: EngineChoice, name: str) -> Iterator[Finding]:
    """The checkpoint's files, and for the Hub's the disk and the token."""
    if name == HUB:
        yield from _hub_files(choice)
    elif name == RANDOM:
        yield Finding("files", OK, "Random weights are made at every start; they prove speed, not sound.")
    else:
        yield opened(name, choice)
    if name == DEMO and choice.checkpoint is None:
        lacks = "a GPU" if choice.token else "HF_TOKEN and a GPU"
        yield Finding("token", NOTE, f"With {lacks} PersonaPlex itself would talk; the trained miniature, a toy, does.")


def _hub_files(choice: EngineChoice) -> Iterator[Finding]:
    from personaplex_app import doctor_hub as hub
    from personaplex_app.model.disk import free_bytes
    from personaplex_app.model.hub_errors import NO_HOME
    from personaplex_app.model.hub_files import RELEASED_BYTES, blobs_folder, cache_folder, has_home
    from personaplex_app.model.hub_space import ADVISED_BYTES, missing_bytes, with_spare

    if not has_home():
        said, _, mend = NO_HOME.partition(": ")
        yield Finding("hub cache", WRONG, f"{said}.", f"{mend[:1].upper()}{mend[1:]}")
        return
    found = hub.cached_files(choice.revision, choice.cache)
    folder = cache_folder()
    missing = missing_bytes(found.revision) if found.missing else 0
    advised = ADVISED_BYTES - (RELEASED_BYTES - missing) if found.missing else 0
    if found.missing:
        yield checks.cache(str(folder), machine.is_writable(blobs_folder()), "HF_HOME", "hub cache")
    yield checks.disk(str(folder), free_bytes(folder), with_spare(missing), advised, "HF_HOME")
    token = hub.token(choice.token, found)
    yield token
    yield hub.files(found, reachable=token.state == OK)
    if found.folder is not None:
        yield opened(str(found.folder), choice)


def opened(name: str, choice: EngineChoice) -> Finding:
    """Whether a checkpoint's files fit together; of the tensors only headers are read."""
    from personaplex_app.model.checkpoint import VOICES_ARCHIVE, VOICES_DIR, open_checkpoint
    from personaplex_app.model.codec_header import check_codec_header
    from personaplex_app.model.tokenizer import Tokenizer
    from personaplex_app.model.voice_archive import archived_names
    from personaplex_app.sources import checkpoint_directory

    try:
        directory = checkpoint_directory(_named(choice, name))
        checkpoint = open_checkpoint(directory, allow_surplus=choice.allow_surplus)
        check_codec_header(checkpoint.codec, checkpoint.config)
        Tokenizer(checkpoint.tokenizer, checkpoint.config.language.text_card)
        if not (directory / VOICES_DIR).is_dir() and (directory / VOICES_ARCHIVE).is_file():
            archived_names(directory / VOICES_ARCHIVE)
    except InvalidInput as error:
        return Finding("checkpoint", WRONG, error.sentence, _mend_checkpoint(error.sentence, name))
    except OSError as error:
        said = f"{error.filename or name} cannot be read: {error.strerror or error}."
        return Finding("checkpoint", WRONG, said, "Give this user the right to read it, or copy it elsewhere.")
    if not (directory / VOICES_DIR).is_dir() and not (directory / VOICES_ARCHIVE).is_file():
        return Finding("checkpoint", NOTE, f"{name} opens; no voices lie with it.")
    return Finding("checkpoint", OK, f"{name} opens: names, shapes and types of all tensors fit.")


def _named(choice: EngineChoice, name: str) -> EngineChoice:
    return replace(choice, checkpoint=name)


def _mend_checkpoint(sentence: str, name: str) -> str:
    if "--allow-surplus" in sentence:
        return "Add --allow-surplus."
    if not os.path.isdir(name):
        return f"Name a directory that is there, or make one: python -m personaplex_app make-checkpoint {name}"
    return f"Fetch or copy the files of {name} anew."


def plan(choice: EngineChoice, name: str) -> Finding:
    """What a start would lay out on this GPU, and how long a frame would take."""
    from personaplex_app.layouts import settle
    from personaplex_app.sources import pick_device

    try:
        config = _config(choice, name)
        setting = settle(choice, name, config, pick_device(choice.device))
        if setting.budget_bytes is not None:
            return _offload(config, setting.dtype.itemsize, setting.budget_bytes)
    except InvalidInput as error:
        why, works, what = error.sentence.partition(WORKS)
        return Finding("plan", WRONG, why.strip(), f"Start with {what}" if works else "Change the flags as it says.")
    if setting.plan is None:
        return Finding("plan", OK, "Nothing has to be planned for this model.")
    return Finding("plan", NOTE if setting.plan.remark else OK, setting.plan.words)


def _offload(config: CheckpointConfig, element_bytes: int, budget_bytes: int) -> Finding:
    """How much would stream; raises InvalidInput where the host has no room for it."""
    from personaplex_app.model.host_memory import available_bytes
    from personaplex_app.model.offload_plan import check_host_room, plan_offload

    offload = plan_offload(config.language, element_bytes, budget_bytes)
    check_host_room(offload, available_bytes())
    said = f"{len(offload.streamed)} of {offload.layers} layers would stream from host memory"
    return Finding("plan", NOTE, f"{said} ({offload.host_bytes / GIB:.1f} GiB); the start measures how slow that is.")


def _config(choice: EngineChoice, name: str) -> CheckpointConfig:
    """The architecture: the released one until the files are here."""
    from personaplex_app.model.checkpoint import CONFIG_FILE
    from personaplex_app.model.config import CheckpointConfig, read_config
    from personaplex_app.sources import checkpoint_directory

    if name in (HUB, RANDOM):
        return CheckpointConfig()
    return read_config(checkpoint_directory(_named(choice, name)) / CONFIG_FILE)
