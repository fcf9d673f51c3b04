"""How the two ends of a talk find each other: STUN and TURN, the place we run in, who may speak for a visitor.

In: a mapping of variables. Out: a frozen `Network`, or InvalidInput in one sentence.
Must not know: the web, how credentials are minted (that is `web/turn.py`).
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from personaplex_app.errors import InvalidInput

ICE_VARIABLE = "PERSONAPLEX_ICE_SERVERS"
TURN_URLS, TURN_SECRET = "PERSONAPLEX_TURN_URLS", "PERSONAPLEX_TURN_SECRET"
TURN_USER, TURN_PASSWORD = "PERSONAPLEX_TURN_USER", "PERSONAPLEX_TURN_PASSWORD"
CLOUDFLARE_ID, CLOUDFLARE_TOKEN = "CLOUDFLARE_TURN_KEY_ID", "CLOUDFLARE_TURN_KEY_API_TOKEN"
PROXIES_VARIABLE = "PERSONAPLEX_TRUSTED_PROXIES"
SECRET_VARIABLE = "PERSONAPLEX_SECRET"
SPACE_VARIABLE, RUNPOD_VARIABLE = "SPACE_ID", "RUNPOD_POD_ID"
SPACE, RUNPOD = "space", "runpod"
SHORTEST_SECRET = 16
TURN_SCHEMES = ("turn:", "turns:")
ICE_SCHEMES = ("stun:", "stuns:", *TURN_SCHEMES)
PLACES = {SPACE: "a Hugging Face Space", RUNPOD: "RunPod"}

IceServer: TypeAlias = dict[str, Any]
Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
AddressRange: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

# Inside a Space every hop before the container has an address that no visitor can have.
SPACE_PROXIES = tuple(
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "fc00::/7", "::1")
)


@dataclass(frozen=True)
class HubTurn:
    """Cloudflare's relay, by a Hugging Face token."""

    token: str = field(repr=False)


@dataclass(frozen=True)
class CloudflareTurn:
    """Cloudflare's relay, by a key of one's own."""

    key_id: str
    api_token: str = field(repr=False)


@dataclass(frozen=True)
class SharedSecretTurn:
    """A coturn with `use-auth-secret`: names and passwords are signed here and expire."""

    urls: tuple[str, ...]
    secret: str = field(repr=False)


@dataclass(frozen=True)
class FixedTurn:
    """A TURN server with one lasting name and password."""

    urls: tuple[str, ...]
    user: str
    password: str = field(repr=False)


TurnSource: TypeAlias = HubTurn | CloudflareTurn | SharedSecretTurn | FixedTurn


@dataclass(frozen=True)
class Network:
    """What the environment says of the way to the visitors.

    Attributes:
        ice: servers of both ends that need no minting, as browsers write them. turn: where a relay's credentials come
            from. place: `space`, `runpod` or empty.
        trusted_proxies: whose X-Forwarded-For is believed. trust_nearest: the nearest hop is one, whatever its address.
        secret: signs the visitors' cookies, so that they outlive a restart; None: a fresh one each start.
    """

    ice: tuple[IceServer, ...] = field(default=(), repr=False)
    turn: TurnSource | None = None
    place: str = ""
    trusted_proxies: tuple[AddressRange, ...] = ()
    trust_nearest: bool = False
    secret: bytes | None = field(default=None, repr=False)

    @property
    def has_turn(self) -> bool:
        """Whether a relay is configured, minted or lasting."""
        return self.turn is not None or lists_turn(self.ice)


def read_network(variables: Mapping[str, str], public: bool = False, token: str | None = None) -> Network:
    """Reads the environment; raises InvalidInput.

    Args:
        public: whether others than this machine can come in. token: Hugging Face's, used for TURN where that helps.
    """
    place = SPACE if variables.get(SPACE_VARIABLE) else RUNPOD if variables.get(RUNPOD_VARIABLE) else ""
    ice = _ice(variables.get(ICE_VARIABLE, ""))
    turn: TurnSource | None = _coturn(variables) or _cloudflare(variables)
    if turn is None and token and (place or public) and not lists_turn(ice):
        turn = HubTurn(token)
    proxies = _proxies(variables.get(PROXIES_VARIABLE, ""))
    return Network(
        ice=ice,
        turn=turn,
        place=place,
        trusted_proxies=proxies or (SPACE_PROXIES if place == SPACE else ()),
        trust_nearest=place == SPACE,
        secret=_secret(variables.get(SECRET_VARIABLE, "")),
    )


def urls_of(server: IceServer) -> list[str]:
    """An ICE server's addresses; browsers take one text or a list."""
    urls = server["urls"]
    return [urls] if isinstance(urls, str) else list(urls)


def lists_turn(servers: Iterable[IceServer]) -> bool:
    """Whether any of the servers is a relay."""
    return any(url.startswith(TURN_SCHEMES) for server in servers for url in urls_of(server))


def is_ice_server(item: object) -> bool:
    """Whether this is what browsers call an ICE server; a relay needs a name and a credential."""
    if not isinstance(item, dict):
        return False
    urls = item.get("urls")
    urls = [urls] if isinstance(urls, str) else urls
    if not (isinstance(urls, list) and urls and all(isinstance(url, str) for url in urls)):
        return False
    if not all(url.startswith(ICE_SCHEMES) and url.partition(":")[2] for url in urls):
        return False
    named = all(isinstance(item.get(key), str) and item[key] for key in ("username", "credential"))
    return named or not any(url.startswith(TURN_SCHEMES) for url in urls)


def relay_notice(network: Network) -> str:
    """What a visitor reads before the click where no relay is set though the place needs one; else nothing."""
    if network.has_turn or not network.place:
        return ""
    return (
        f"On {PLACES[network.place]} a direct connection (WebRTC) often fails, and no TURN relay is set up here; the "
        f"talk then goes on by itself over this page's own socket. To mend it set HF_TOKEN, or {CLOUDFLARE_ID} and "
        f"{CLOUDFLARE_TOKEN}, or {TURN_URLS} and {TURN_SECRET}."
    )


def client_address(peer: str, forwarded_for: str | None, network: Network) -> str:
    """The visitor's address: the last that a trusted hop vouches for. Junk is never believed and never raises.

    Args:
        peer: the connection's other end. forwarded_for: the header X-Forwarded-For, every visitor can begin it.
    """
    nearest = _address(peer)
    found = str(nearest) if nearest else peer
    if not (network.trust_nearest or _trusted(nearest, network)):
        return found
    for text in reversed((forwarded_for or "").split(",")):
        address = _address(text)
        if address is None:
            break
        found = str(address)
        if not _trusted(address, network):
            break
    return found


def _trusted(address: Address | None, network: Network) -> bool:
    return address is not None and any(address in proxies for proxies in network.trusted_proxies)


def _address(text: str) -> Address | None:
    """An address as written in the header: bare, `[v6]:port` or `v4:port`."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _ice(text: str) -> tuple[IceServer, ...]:
    if not text.strip():
        return ()
    try:
        servers = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput(f"{ICE_VARIABLE} must be JSON, a list of ICE servers.") from None
    if not isinstance(servers, list) or not all(is_ice_server(item) for item in servers):
        raise InvalidInput(
            f"{ICE_VARIABLE} must be a JSON list of objects, each with urls (stun: or turn:), and for turn: a username "
            "and a credential."
        )
    return tuple(servers)


def _coturn(variables: Mapping[str, str]) -> SharedSecretTurn | FixedTurn | None:
    urls = tuple(_words(variables.get(TURN_URLS, "")))
    secret, user, password = (variables.get(name, "").strip() for name in (TURN_SECRET, TURN_USER, TURN_PASSWORD))
    if not (urls or secret or user or password):
        return None
    if not urls or not all(url.startswith(TURN_SCHEMES) and url.partition(":")[2] for url in urls):
        raise InvalidInput(f"{TURN_URLS} must list addresses that begin with turn: or turns:, commas between them.")
    if secret and not (user or password):
        return SharedSecretTurn(urls, secret)
    if user and password and not secret:
        return FixedTurn(urls, user, password)
    raise InvalidInput(f"{TURN_URLS} needs {TURN_SECRET}, or {TURN_USER} and {TURN_PASSWORD}, not both.")


def _cloudflare(variables: Mapping[str, str]) -> CloudflareTurn | None:
    key_id, api_token = (variables.get(name, "").strip() for name in (CLOUDFLARE_ID, CLOUDFLARE_TOKEN))
    if not key_id and not api_token:
        return None
    if not (key_id and api_token):
        raise InvalidInput(f"{CLOUDFLARE_ID} and {CLOUDFLARE_TOKEN} belong together: set both or none.")
    return CloudflareTurn(key_id, api_token)


def _proxies(text: str) -> tuple[AddressRange, ...]:
    try:
        return tuple(ipaddress.ip_network(word, strict=False) for word in _words(text))
    except ValueError:
        raise InvalidInput(
            f"{PROXIES_VARIABLE} must list addresses or ranges such as 10.0.0.0/8, commas between them."
        ) from None


def _secret(text: str) -> bytes | None:
    if not text:
        return None
    if len(text) < SHORTEST_SECRET:
        raise InvalidInput(f"{SECRET_VARIABLE} must have at least {SHORTEST_SECRET} characters.")
    return text.encode("utf-8", "surrogateescape")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
