"""Settings: flags over variables, loopback by default, and one sentence for what does not fit together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from personaplex_app.cli import build_parser
from personaplex_app.errors import InvalidInput
from personaplex_app.network import HubTurn
from personaplex_app.settings import Settings, cache_directory, environment, hub_token, is_loopback, read_settings

STUN = '[{"urls": "stun:stun.example.org"}, {"urls": ["turn:t.example.org"], "username": "u", "credential": "c"}]'
SPACE = {"SPACE_ID": "nvidia/talk", "GRADIO_SERVER_NAME": "0.0.0.0", "GRADIO_SERVER_PORT": "7861"}


def _read(*flags: str, **variables: str) -> Settings:
    return read_settings(build_parser().parse_args(["serve", *flags]), variables)


def _sentence(*flags: str, **variables: str) -> str:
    with pytest.raises(InvalidInput) as refused:
        _read(*flags, **variables)
    assert "\n" not in refused.value.sentence
    return refused.value.sentence


def test_with_nothing_said_only_this_machine_gets_in() -> None:
    settings = _read()
    assert (settings.host, settings.port, settings.model.slots, settings.engine) == ("127.0.0.1", 7860, None, "model")
    assert not (settings.auth or settings.share or settings.public or settings.plain_microphone)
    assert settings.model.checkpoint is settings.model.token is settings.model.revision is None
    assert settings.network.ice == () and settings.origins == ()


def test_variables_are_taken_and_flags_win() -> None:
    named = _read(GRADIO_SERVER_NAME="::1", GRADIO_SERVER_PORT="8000")
    assert (named.host, named.port) == ("::1", 8000)
    flagged = _read("--host", "localhost", "--port", "0", GRADIO_SERVER_NAME="::1", GRADIO_SERVER_PORT="8000")
    assert (flagged.host, flagged.port) == ("localhost", 0)


def test_every_flag_arrives() -> None:
    settings = _read(
        *("--slots", "3", "--engine", "echo", "--auth", "anna:a:b", "--share", "--plain-microphone", "--public"),
        *("--checkpoint", "mini", "--device", "cpu", "--precision", "float32", "--threads", "2", "--allow-surplus"),
    )
    assert (settings.model.slots, settings.engine, settings.auth) == (3, "echo", ("anna", "a:b"))
    assert (settings.model.checkpoint, settings.model.device, settings.model.precision, settings.model.threads) == (
        "mini",
        "cpu",
        "float32",
        2,
    )
    assert settings.share and settings.plain_microphone and settings.public and settings.model.allow_surplus


def test_what_the_planner_decides_is_left_open_and_can_be_named() -> None:
    usual = _read().model
    assert (usual.precision, usual.kv_cache, usual.slots, usual.gpu_memory_bytes) == ("auto", "auto", None, None)
    assert not usual.cpu_offload and usual.purpose == "talk"
    named = _read("--precision", "int4", "--kv-cache", "model", "--gpu-memory-gb", "7.5", "--cpu-offload").model
    assert (named.precision, named.kv_cache, named.gpu_memory_bytes) == ("int4", "model", 15 << 29)
    assert named.cpu_offload and _read("--kv-cache", "int8").model.kv_cache == "int8"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "::1"])
def test_loopback_needs_nothing(host: str) -> None:
    assert is_loopback(host) and _read("--host", host).host == host


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.5", "10.0.0.1", "example.org", "localhost.example.org", "127.1"]
)
def test_any_other_address_asks_for_a_password_or_consent(host: str) -> None:
    sentence = f"--host {host} lets anybody in: add --auth USER:PASS, or --public if that is what you want."
    assert not is_loopback(host) and _sentence("--host", host) == _sentence(GRADIO_SERVER_NAME=host) == sentence
    assert _read("--host", host, "--public").public
    assert _read("--host", host, "--auth", "a:b").auth == ("a", "b")


def test_a_shared_link_asks_for_a_password_or_consent() -> None:
    assert _sentence("--share").startswith("--share lets anybody in: add --auth USER:PASS, or --public")
    assert _read("--share", "--auth", "a:b").share and _read("--share", "--public").share


def test_a_space_is_public_by_itself() -> None:
    settings = _read(**SPACE)
    assert (settings.host, settings.port, settings.public) == ("0.0.0.0", 7861, True)
    assert _sentence(**{**SPACE, "SPACE_ID": ""}).startswith("--host 0.0.0.0 lets anybody in")


@pytest.mark.parametrize(
    ("flags", "variables", "sentence"),
    [
        (("--port", "-1"), {}, "The port must be from 0 to 65535, not -1."),
        (("--port", "65536"), {}, "The port must be from 0 to 65535, not 65536."),
        ((), {"GRADIO_SERVER_PORT": "99999"}, "The port must be from 0 to 65535, not 99999."),
        ((), {"GRADIO_SERVER_PORT": "http"}, "GRADIO_SERVER_PORT must be a number, not 'http'."),
        (("--slots", "0"), {}, "--slots must be from 1 to 256, not 0."),
        (("--slots", "257"), {}, "--slots must be from 1 to 256, not 257."),
        (("--threads", "0"), {}, "--threads must be from 1 to 256, not 0."),
        (("--gpu-memory-gb", "0.5"), {}, "--gpu-memory-gb must be from 1 to 4096, not 0.5."),
        (("--gpu-memory-gb", "nan"), {}, "--gpu-memory-gb must be from 1 to 4096, not nan."),
        (("--auth", "anna"), {}, "--auth must be USER:PASS, both not empty."),
        (("--auth", ":secret"), {}, "--auth must be USER:PASS, both not empty."),
        (("--auth", "anna:"), {}, "--auth must be USER:PASS, both not empty."),
        (("--auth", ""), {}, "--auth must be USER:PASS, both not empty."),
        (("--call-minutes", "0"), {}, "--call-minutes must be from 1 to 1440, not 0."),
        (("--call-minutes", "1441"), {}, "--call-minutes must be from 1 to 1440, not 1441."),
        (("--call-minutes", "nan"), {}, "--call-minutes must be from 1 to 1440, not nan."),
        (("--drain-seconds", "-1"), {}, "--drain-seconds must be from 0 to 3600, not -1."),
        (("--drain-seconds", "inf"), {}, "--drain-seconds must be from 0 to 3600, not inf."),
        (("--parking-mb", "-1"), {}, "--parking-mb must be from 0 to 1048576, not -1."),
        (("--recordings-mb", "-1"), {}, "--recordings-mb must be from 0 to 1048576, not -1."),
    ],
)
def test_what_cannot_be_is_said(flags: tuple[str, ...], variables: dict[str, str], sentence: str) -> None:
    assert _sentence(*flags, **variables) == sentence


@pytest.mark.parametrize(
    "flags", [("--port", "x"), ("--engine", "fast"), ("--device", "tpu"), ("--unknown",), ("--slots",)]
)
def test_what_is_no_flag_shows_the_flags(flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        _read(*flags)
    assert left.value.code == 2 and capsys.readouterr().err.startswith("error: ")


def test_the_network_s_variables_arrive() -> None:
    network = _read(PERSONAPLEX_ICE_SERVERS=STUN, PERSONAPLEX_SECRET="s" * 32).network
    assert list(network.ice) == json.loads(STUN) and network.secret is not None and network.place == ""
    assert _read(**SPACE).network.place == "space"
    assert _sentence(PERSONAPLEX_ICE_SERVERS="[").startswith("PERSONAPLEX_ICE_SERVERS must be")


@pytest.mark.parametrize(
    ("flags", "opened"),
    [((), False), (("--host", "0.0.0.0", "--public"), True), (("--share", "--auth", "a:b"), True)],
    ids=["this machine", "address", "share"],
)
def test_the_token_pays_for_a_relay_only_where_others_come_in(flags: tuple[str, ...], opened: bool) -> None:
    turn = _read(*flags, HF_TOKEN="hf_a").network.turn
    assert (turn == HubTurn("hf_a")) if opened else (turn is None)


def test_how_long_and_how_much_has_flags() -> None:
    usual = _read()
    assert (usual.call_seconds, usual.drain_seconds, usual.parking_bytes) == (1800, 30, 2 << 30)
    other = _read("--call-minutes", "1.5", "--drain-seconds", "0", "--parking-mb", "0")
    assert (other.call_seconds, other.drain_seconds, other.parking_bytes) == (90, 0, 0)
    assert usual.recordings_bytes == 1 << 30 and _read("--recordings-mb", "0").recordings_bytes == 0


@pytest.mark.parametrize(
    ("text", "origins"),
    [
        ("", ()),
        (" , ", ()),
        ("https://huggingface.co", ("https://huggingface.co",)),
        (" https://A.example/ ,http://b.example:8000", ("https://a.example", "http://b.example:8000")),
    ],
)
def test_other_pages_origins_are_read(text: str, origins: tuple[str, ...]) -> None:
    assert _read(PERSONAPLEX_ORIGINS=text).origins == origins


@pytest.mark.parametrize("text", ["*", "null", "a.example", "ftp://a.example", "https://a.example/path", "https:/a"])
def test_what_is_no_origin_is_said(text: str) -> None:
    sentence = f"PERSONAPLEX_ORIGINS must list origins such as https://example.org, not {text!r}."
    assert _sentence(PERSONAPLEX_ORIGINS=f"https://good.example, {text}") == sentence


@pytest.mark.parametrize(
    ("variables", "token"),
    [
        ({}, None),
        ({"HF_TOKEN": "hf_a"}, "hf_a"),
        ({"HUGGING_FACE_HUB_TOKEN": " hf_b \n"}, "hf_b"),
        ({"HF_TOKEN": "hf_a", "HUGGING_FACE_HUB_TOKEN": "hf_b"}, "hf_a"),
        ({"HF_TOKEN": " ", "HUGGING_FACE_HUB_TOKEN": "hf_b"}, "hf_b"),
        ({"HF_TOKEN": ""}, None),
    ],
)
def test_the_token_comes_from_either_variable(variables: dict[str, str], token: str | None) -> None:
    assert hub_token(variables) == token == _read(**variables).model.token


@pytest.mark.parametrize(
    "token", ["hf_abcSECRET\nghiSECRET", "hf_abc SECRET", "hf_SECRETé", "hf_SECRET\udce9", "hf_\x7f"]
)
@pytest.mark.parametrize("name", ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"])
def test_a_token_that_is_none_is_told_without_being_shown(name: str, token: str) -> None:
    told = _sentence(**{name: token})
    assert told.startswith(f"{name} holds no token: ") and "settings/tokens" in told
    assert "SECRET" not in told and "hf_" not in told


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # as for a number that no name belongs to
    with pytest.raises(InvalidInput, match="no home folder: set PERSONAPLEX_CACHE to a folder"):
        cache_directory({})
    assert cache_directory({"PERSONAPLEX_CACHE": "/a"}) == Path("/a")


def test_the_revision_and_the_cache_have_variables() -> None:
    assert (
        _read(PERSONAPLEX_REVISION="abc").model.revision == "abc"
        and _read(PERSONAPLEX_REVISION="").model.revision is None
    )
    assert cache_directory({"PERSONAPLEX_CACHE": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a")
    assert cache_directory({"XDG_CACHE_HOME": "/b"}) == Path("/b/personaplex_app")
    assert cache_directory({}) == Path.home() / ".cache" / "personaplex_app"


def test_the_environment_is_the_process_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPACE_ID", "a/b")
    assert environment()["SPACE_ID"] == "a/b"


FLAGS = ["--host", "--port", "--slots", "--engine", "--auth", "--share", "--public", "--checkpoint", "--device"]
FLAGS += ["--threads", "--precision", "--allow-surplus", "--plain-microphone", "-h", "--"]
FLAGS += ["--call-minutes", "--drain-seconds", "--parking-mb", "--kv-cache", "--gpu-memory-gb", "--cpu-offload"]
VALUES = ["echo", "cpu", "0.0.0.0", "::1%lo", "1", "1e400", "nan", "a:b"]
WORDS = st.lists(st.sampled_from(FLAGS + VALUES) | st.text(max_size=12), max_size=8)
VARIABLES = st.dictionaries(
    st.sampled_from(
        [
            *("SPACE_ID", "GRADIO_SERVER_NAME", "GRADIO_SERVER_PORT", "HF_TOKEN"),
            *("PERSONAPLEX_ICE_SERVERS", "PERSONAPLEX_ORIGINS", "PERSONAPLEX_SECRET"),
        ]
    ),
    st.text(max_size=20) | st.integers().map(str) | st.just(STUN),
)


@settings(max_examples=300, deadline=None)
@given(WORDS, VARIABLES)
@example(["--port", "9" * 5000], {})
@example([], {"GRADIO_SERVER_PORT": "9" * 5000})
def test_any_words_give_settings_or_a_sentence(words: list[str], variables: dict[str, str]) -> None:
    try:
        got = read_settings(build_parser().parse_args(["serve", *words]), variables)
    except InvalidInput as error:
        assert error.sentence
    except SystemExit as left:
        assert left.code in (0, 2)
    else:
        assert got.auth or got.public or (is_loopback(got.host) and not got.share)
