"""The network's settings: what is read, what is refused in words, and whose word on an address counts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personaplex_app.errors import InvalidInput
from personaplex_app.network import (
    CloudflareTurn,
    FixedTurn,
    HubTurn,
    Network,
    SharedSecretTurn,
    client_address,
    lists_turn,
    read_network,
    relay_notice,
)

STUN = {"urls": "stun:stun.example.org"}
TURN = {"urls": ["turn:t.example.org", "turns:t.example.org?transport=tcp"], "username": "u", "credential": "c"}
COTURN = {"PERSONAPLEX_TURN_URLS": "turn:a.example, turns:a.example:443?transport=tcp,"}
CLOUDFLARE = {"CLOUDFLARE_TURN_KEY_ID": "key", "CLOUDFLARE_TURN_KEY_API_TOKEN": "api-token"}
URLS = ("turn:a.example", "turns:a.example:443?transport=tcp")
SPACE = {"SPACE_ID": "nvidia/talk"}


def _sentence(**variables: str) -> str:
    with pytest.raises(InvalidInput) as refused:
        read_network(variables)
    assert "\n" not in refused.value.sentence
    return refused.value.sentence


def test_with_nothing_said_nothing_is_set() -> None:
    network = read_network({})
    assert network == Network() and not network.has_turn and relay_notice(network) == ""


def test_static_servers_are_taken_as_they_are() -> None:
    network = read_network({"PERSONAPLEX_ICE_SERVERS": json.dumps([STUN, TURN])})
    assert network.ice == (STUN, TURN) and network.has_turn
    assert not read_network({"PERSONAPLEX_ICE_SERVERS": json.dumps([STUN])}).has_turn
    assert read_network({"PERSONAPLEX_ICE_SERVERS": " "}).ice == ()


@pytest.mark.parametrize(
    "junk",
    [
        "{",
        "[" * 100_000,
        "{}",
        "[1]",
        '[{"urls": 1}]',
        '[{"urls": []}]',
        '[{"urls": ["stun:a", 2]}]',
        '[{"urls": "http://a"}]',
        '[{"urls": "turn:"}]',
        '[{"urls": "turn:a"}]',
        '[{"urls": "turn:a", "username": "u"}]',
        '[{"urls": "turn:a", "username": "u", "credential": 3}]',
    ],
)
def test_junk_in_place_of_servers_is_refused(junk: str) -> None:
    assert "PERSONAPLEX_ICE_SERVERS" in _sentence(PERSONAPLEX_ICE_SERVERS=junk)


def test_coturn_by_secret_or_by_name_and_password() -> None:
    assert read_network({**COTURN, "PERSONAPLEX_TURN_SECRET": "s"}).turn == SharedSecretTurn(URLS, "s")
    named = {**COTURN, "PERSONAPLEX_TURN_USER": "u", "PERSONAPLEX_TURN_PASSWORD": "p"}
    assert read_network(named).turn == FixedTurn(URLS, "u", "p")


@pytest.mark.parametrize(
    "variables",
    [
        COTURN,
        {"PERSONAPLEX_TURN_SECRET": "s"},
        {"PERSONAPLEX_TURN_URLS": "stun:a.example", "PERSONAPLEX_TURN_SECRET": "s"},
        {"PERSONAPLEX_TURN_URLS": "turn:", "PERSONAPLEX_TURN_SECRET": "s"},
        {**COTURN, "PERSONAPLEX_TURN_USER": "u"},
        {**COTURN, "PERSONAPLEX_TURN_PASSWORD": "p"},
        {**COTURN, "PERSONAPLEX_TURN_SECRET": "s", "PERSONAPLEX_TURN_USER": "u", "PERSONAPLEX_TURN_PASSWORD": "p"},
    ],
)
def test_half_a_coturn_is_refused(variables: dict[str, str]) -> None:
    assert "PERSONAPLEX_TURN_URLS" in _sentence(**variables)


@pytest.mark.parametrize("name", sorted(CLOUDFLARE))
def test_half_a_cloudflare_key_is_refused(name: str) -> None:
    assert "belong together" in _sentence(**{name: "x"})


@pytest.mark.parametrize(
    ("place", "public", "used"),
    [({}, False, False), ({}, True, True), (SPACE, False, True), ({"RUNPOD_POD_ID": "p"}, False, True)],
)
def test_a_hub_token_serves_as_a_relay_only_where_that_helps(place: dict[str, str], public: bool, used: bool) -> None:
    assert read_network(place, public, "hf_x").turn == (HubTurn("hf_x") if used else None)


def test_what_is_said_wins_over_the_hub_token() -> None:
    cloudflare, coturn = CloudflareTurn("key", "api-token"), SharedSecretTurn(URLS, "s")
    assert read_network({**SPACE, **CLOUDFLARE}, True, "hf_x").turn == cloudflare
    assert read_network({**SPACE, **CLOUDFLARE, **COTURN, "PERSONAPLEX_TURN_SECRET": "s"}, True, "hf_x").turn == coturn
    static = read_network({**SPACE, "PERSONAPLEX_ICE_SERVERS": json.dumps([TURN])}, True, "hf_x")
    assert static.turn is None and static.has_turn and relay_notice(static) == ""


def test_a_missing_relay_is_said_where_one_is_needed() -> None:
    for place, word in ((SPACE, "Hugging Face Space"), ({"RUNPOD_POD_ID": "p"}, "RunPod")):
        notice = relay_notice(read_network(place))
        assert word in notice and "socket" in notice and "HF_TOKEN" in notice and "\n" not in notice
        assert relay_notice(read_network({**place, **CLOUDFLARE})) == ""
    assert relay_notice(read_network({}, public=True)) == ""


def test_secrets_stay_out_of_what_is_printed() -> None:
    everything = {
        **SPACE,
        "PERSONAPLEX_ICE_SERVERS": json.dumps([{**TURN, "credential": "hush-1"}]),
        "PERSONAPLEX_SECRET": "hush-2-0123456789",
    }
    sources = (
        {"CLOUDFLARE_TURN_KEY_ID": "key", "CLOUDFLARE_TURN_KEY_API_TOKEN": "hush-3"},
        {**COTURN, "PERSONAPLEX_TURN_SECRET": "hush-4"},
        {**COTURN, "PERSONAPLEX_TURN_USER": "u", "PERSONAPLEX_TURN_PASSWORD": "hush-5"},
    )
    printed = [repr(read_network({**everything, **source})) for source in sources]
    printed.append(repr(read_network(SPACE, True, "hush-6")))
    assert not [text for text in printed if "hush" in text]


def test_a_cookie_secret_is_long_enough_or_refused() -> None:
    assert read_network({"PERSONAPLEX_SECRET": "0123456789abcdef"}).secret == b"0123456789abcdef"
    assert read_network({"PERSONAPLEX_SECRET": ""}).secret is None
    assert "16" in _sentence(PERSONAPLEX_SECRET="0123456789abcde")


@pytest.mark.parametrize("junk", ["localhost", "10.0.0.0/33", "10.0.0.1, x", "::g", "1.2.3"])
def test_junk_in_place_of_proxies_is_refused(junk: str) -> None:
    assert "PERSONAPLEX_TRUSTED_PROXIES" in _sentence(PERSONAPLEX_TRUSTED_PROXIES=junk)


PROXIED = read_network({"PERSONAPLEX_TRUSTED_PROXIES": "10.0.0.0/8, 2001:db8::7, 192.168.1.9/24"})


@pytest.mark.parametrize(
    ("peer", "forwarded", "found"),
    [
        ("203.0.113.5", None, "203.0.113.5"),
        ("203.0.113.5", "198.51.100.1", "203.0.113.5"),  # a stranger's header is nobody's word
        ("10.1.2.3", None, "10.1.2.3"),
        ("10.1.2.3", "198.51.100.1", "198.51.100.1"),
        ("10.1.2.3", "6.6.6.6, 198.51.100.1", "198.51.100.1"),  # what stands left of the visitor, the visitor wrote
        ("10.1.2.3", "6.6.6.6, 198.51.100.1, 10.9.9.9", "198.51.100.1"),
        ("10.1.2.3", "10.4.4.4, 10.9.9.9", "10.4.4.4"),
        ("::ffff:10.1.2.3", "198.51.100.1", "198.51.100.1"),
        ("2001:db8::7", "[2001:db8::99]:443", "2001:db8::99"),
        ("192.168.1.200", "198.51.100.1:50123", "198.51.100.1"),
        ("10.1.2.3", "nonsense", "10.1.2.3"),
        ("10.1.2.3", "198.51.100.1, <script>", "10.1.2.3"),
        ("10.1.2.3", "198.51.100.1, unknown, 10.2.2.2", "10.2.2.2"),
        ("10.1.2.3", ",,,", "10.1.2.3"),
        ("testclient", "198.51.100.1", "testclient"),
        ("", "198.51.100.1", ""),
    ],
)
def test_the_visitor_is_the_last_whom_a_trusted_hop_names(peer: str, forwarded: str | None, found: str) -> None:
    assert client_address(peer, forwarded, PROXIED) == found


def test_without_proxies_the_header_says_nothing() -> None:
    assert client_address("127.0.0.1", "198.51.100.1", Network()) == "127.0.0.1"


def test_a_space_s_own_proxy_is_trusted() -> None:
    space = read_network(SPACE)
    assert space.trust_nearest
    assert client_address("52.1.1.1", "6.6.6.6, 198.51.100.1", space) == "198.51.100.1"
    assert client_address("10.16.3.4", "6.6.6.6, 198.51.100.1, 10.16.9.9", space) == "198.51.100.1"
    named = read_network({**SPACE, "PERSONAPLEX_TRUSTED_PROXIES": "52.2.2.2"})
    assert client_address("52.1.1.1", "198.51.100.1, 52.2.2.2", named) == "198.51.100.1"


@given(st.text(max_size=80), st.none() | st.text(max_size=80))
def test_no_header_raises(peer: str, forwarded: str | None) -> None:
    for network in (Network(), PROXIED, read_network(SPACE)):
        assert isinstance(client_address(peer, forwarded, network), str)


def test_a_relay_is_known_by_its_scheme() -> None:
    assert lists_turn([STUN, TURN]) and not lists_turn([STUN]) and not lists_turn([])
