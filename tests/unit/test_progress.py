"""Lines become phases and facts; how far it is is found in them, and what is nobody's business is left out."""

from __future__ import annotations

import pytest

from personaplex_app.model.byte_progress import ByteProgress
from personaplex_app.web.progress import LOG_SECONDS, MOST_CHARACTERS, MOST_DONE, Phase, Progress, read_line, shown


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def progress(clock: Clock, log: list[str]) -> Progress:
    return Progress(log.append, clock)


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        ("Loading weights ...", Phase("Loading weights")),
        ("Fetching a.bin: 3.2 of 12.8 GB, 120 MB/s", Phase("Fetching a.bin", "3.2 of 12.8 GB, 120 MB/s", 0.25)),
        ("Fetching: 512 MB of 1.024 GB", Phase("Fetching", "512 MB of 1.024 GB", 0.5)),
        ("Fetching: 12 bytes of 48 bytes, 25 %", Phase("Fetching", "12 bytes of 48 bytes, 25 %", 0.25)),
        ("Fetching: 900 kB of 1.80 MB, 50 %", Phase("Fetching", "900 kB of 1.80 MB, 50 %", 0.5)),
        ("Recording 3 of 4 graphs", Phase("Recording 3 of 4 graphs", "", 0.75)),
        ("Compiling kernels: 40 % done", Phase("Compiling kernels", "40 % done", 0.4)),
        ("Fetching: 17.0 of 16.7 GB", Phase("Fetching", "17.0 of 16.7 GB", 1.0)),
        ("Fetching: 0 of 0 bytes", Phase("Fetching: 0 of 0 bytes")),
        ("Fetching config.json (1 of 5) from a/b ...", Phase("Fetching config.json (1 of 5) from a/b")),
        ("Loading v1.2 of it", Phase("Loading v1.2 of it")),
    ],
)
def test_a_line_says_what_is_done_and_how_far_it_is(line: str, phase: Phase) -> None:
    assert read_line(line) == phase


@pytest.mark.parametrize(
    "line",
    ["The plan: bfloat16 on an L4, 18.2 of 22.5 GiB.", "The fast engine cannot run here (X); the plain one runs."],
)
def test_what_is_not_being_done_is_a_fact(line: str) -> None:
    assert read_line(line) == line


def test_the_lines_of_a_download_are_understood(progress: Progress, clock: Clock) -> None:
    told = ByteProgress("Fetching model.safetensors", 16_700_000_000, progress.report, clock=clock)
    for done in (4_175_000_000, 8_350_000_000):
        clock.now += 30
        told.reach(done)
    phase = progress.view.phase
    assert (phase.words, phase.fraction) == ("Fetching model.safetensors", 0.5)
    assert phase.detail.startswith("8.35 of 16.7 GB") or phase.detail.startswith("8.35 GB of 16.7 GB, 50 %")


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("There is no checkpoint directory /home/anna/models/x.", "There is no checkpoint directory x."),
        ("~/.cache/huggingface/hub cannot be used: full.", "hub cannot be used: full."),
        ("'../up/there/voice.pt' is no voice", "'voice.pt' is no voice"),
        ("Make one on https://huggingface.co/settings/tokens and go on", None),
        ("Fetching a.bin (1 of 5) from nvidia/personaplex-7b-v1 at 120 MB/s", None),
        ("The token hf_AbCdEf0123456789 is not valid", "The token hf_… is not valid"),
        ("start with HF_TOKEN=hf_... in the environment", None),
        ("The proxy http://anna:secret@proxy:8080 refuses", "The proxy http://proxy:8080 refuses"),
        ("one\n  two", "one two"),
        ("/root/secret dir/file.txt is broken.", "file.txt is broken."),
        ("There is no file /root/a secret dir/and one more/file.txt.", "There is no file file.txt."),
        ("Delete it: rm '/root/secret, (dir)/file name.txt'", "Delete it: rm 'file name.txt'"),
        ("'/root/secret dir/' is full", "'secret dir' is full"),
        ("See file:///root/a/b, file:/root/a/c", "See b, c"),
        ("The login http://anna:p@ss@proxy refuses", "The login http://proxy refuses"),
        ("Nothing lies in /root/a. Go on/off.", "Nothing lies in a. Go on/off."),
        (
            "Copying /root/a b/c for nvidia/x 120 MB/s",
            "Copying c for nvidia/x 120 MB/s",
        ),
    ],
)
def test_a_stranger_reads_no_directory_token_or_login(line: str, seen: str | None) -> None:
    assert shown(line) == (line if seen is None else seen)


def test_endless_lines_are_cut() -> None:
    assert len(shown("word " * 1000)) == MOST_CHARACTERS
    assert "secret" not in shown("x" * (MOST_CHARACTERS - 12) + " /root/secret/file.txt")


def test_phases_take_their_time_and_facts_stand_between_them(progress: Progress, clock: Clock) -> None:
    progress.report("Loading the libraries ...")
    clock.now += 4
    progress.report("Fetching a.bin: 1 of 4 GB")
    clock.now += 2
    progress.report("Fetching a.bin: 3 of 4 GB")
    progress.report("The plan: two lines.")
    clock.now += 1
    view = progress.view
    assert (view.phase.words, view.phase.fraction, view.seconds, view.failed) == ("Fetching a.bin", 0.75, 3.0, "")
    assert view.done == (("Starting", 0.0), ("Loading the libraries", 4.0), ("The plan: two lines.", None))


def test_lines_that_differ_in_how_far_they_are_belong_together(progress: Progress, clock: Clock) -> None:
    for number in (1, 2, 3):
        progress.report(f"Recording {number} of 3 graphs")
        clock.now += 1
    assert progress.view.seconds == 3.0 and len(progress.view.done) == 1
    progress.report("Recording voices: 1 of 3")
    assert progress.view.seconds == 0.0 and progress.view.done[-1] == ("Recording 3 of 3 graphs", 3.0)


def test_a_fact_that_is_told_again_with_other_numbers_stands_there_once(progress: Progress, log: list[str]) -> None:
    lines = ["One fact.", "The line broke at 1 GB.", "The line broke at 1.5 GB.", "Another fact."]
    for line in lines:
        progress.report(line)
    assert [words for words, _ in progress.view.done] == [lines[0], lines[2], lines[3]] and log == lines


def test_the_log_gets_every_phase_and_fact_but_only_a_line_in_ten_seconds_of_how_far(
    progress: Progress, clock: Clock, log: list[str]
) -> None:
    lines = [f"Fetching a.bin: {second} of 60 MB" for second in range(25)]
    for line in lines:
        progress.report(line)
        clock.now += 1
    progress.report("Loading weights ...")
    progress.report("A fact.")
    assert log == [lines[0], lines[int(LOG_SECONDS)], lines[2 * int(LOG_SECONDS)], "Loading weights ...", "A fact."]


def test_the_log_gets_the_line_as_it_was_given(progress: Progress, log: list[str]) -> None:
    progress.report("Loading /home/anna/x ...")
    assert log == ["Loading /home/anna/x ..."] and progress.view.phase.words == "Loading x"


def test_only_the_last_of_many_phases_are_kept(progress: Progress) -> None:
    for number in range(50):
        progress.report(f"Doing {number}")
    assert [words for words, _ in progress.view.done] == [f"Doing {number}" for number in range(49 - MOST_DONE, 49)]


def test_an_end_is_told_without_directories(progress: Progress) -> None:
    progress.fail("/home/anna/x.safetensors is broken.")
    assert progress.view.failed == "x.safetensors is broken."
