"""The real server: where a visitor comes from is what the connection says, not what it claims; no stock routes."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from support.served import served
from websockets.sync.client import connect

MOST = 60
STOCK = ["webrtc/offer", "websocket/offer", "telephone/incoming", "telephone/handler"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served("--engine", "echo") as address:
        yield address


def _asked(url: str, claimed: str) -> dict[str, object]:
    """A stranger's ask, who claims to come from somewhere."""
    socket = url.replace("http", "ws") + "/talk/socket"
    with connect(socket, additional_headers={"x-forwarded-for": claimed}) as line:
        line.send(json.dumps({"type": "ask"}))
        while (told := json.loads(line.recv(10)))["type"] not in ("admitted", "waiting", "refused"):
            pass
        line.send(json.dumps({"type": "stop"}))
    return told


def test_nobody_comes_more_often_by_claiming_other_addresses(url: str) -> None:
    told = [_asked(url, f"192.0.2.{number}") for number in range(MOST + 1)]
    assert {one["type"] for one in told[:MOST]} <= {"admitted", "waiting"}
    assert told[MOST]["code"] == "too_many_joins" and "Try again in" in str(told[MOST]["sentence"])


@pytest.mark.parametrize("path", STOCK)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_fastrtc_s_own_routes_are_not_there(url: str, path: str, method: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(f"{url}/{path}", method=method), timeout=10)
    with refused.value as answer:
        assert answer.code in (404, 405)
