"""A request's body is bounded before it is read, JSON before it is believed, and work never runs twice at once."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse

from personaplex_app.errors import InvalidInput, NoCapacity, ServerFault
from personaplex_app.web.json_body import Workbench, error_answer, parse_values, read_body


def _request(pieces: list[bytes], **headers: str) -> tuple[Request, list[int]]:
    """A request whose body comes in pieces, and how many of them were asked for."""
    asked: list[int] = []

    async def receive() -> dict[str, Any]:
        asked.append(1)
        piece = pieces[len(asked) - 1]
        return {"type": "http.request", "body": piece, "more_body": len(asked) < len(pieces)}

    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": sent}, receive), asked


def test_a_body_in_pieces_is_read_whole() -> None:
    request, _ = _request([b"ab", b"", b"c"], content_length="3")
    assert asyncio.run(read_body(request, 3)) == b"abc"


def test_a_body_that_says_it_is_too_large_is_not_read_at_all() -> None:
    request, asked = _request([b"x"] * 100, content_length="1025")
    with pytest.raises(InvalidInput, match="too large; at most 1 KiB are read"):
        asyncio.run(read_body(request, 1024))
    assert asked == []


@pytest.mark.parametrize("declared", ["", "5", "-1", "1e9", "²", "9" * 5000])
def test_a_body_that_lies_about_its_size_is_read_no_further_than_the_limit(declared: str) -> None:
    request, asked = _request([b"x" * 100] * 1000)
    request.scope["headers"] = [(b"content-length", declared.encode("utf-8"))]
    with pytest.raises(InvalidInput) as refused:
        asyncio.run(read_body(request, 1024))
    assert refused.value.code == "too_large" and len(asked) <= 11


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe", b"nothing", b'{"a": ' * 50_000, b"[" * 100_000, b'{"a": ' + b"9" * 5_000 + b"}"],
)
def test_what_is_no_json_is_refused_in_words(body: bytes) -> None:
    with pytest.raises(InvalidInput, match="no readable JSON"):
        parse_values(body)


@pytest.mark.parametrize("body", [b"[]", b"1", b'"a"', b"null"])
def test_what_is_no_object_is_refused_in_words(body: bytes) -> None:
    with pytest.raises(InvalidInput, match="no JSON object"):
        parse_values(body)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidInput("No."), 422),
        (InvalidInput("No.", code="too_large"), 413),
        (InvalidInput("No.", code="prompt_too_long"), 422),
        (NoCapacity("No."), 429),
        (ServerFault("No."), 503),
    ],
)
def test_an_error_has_the_status_that_fits(error: InvalidInput, status: int) -> None:
    answer = error_answer(error)
    assert answer.status_code == status and json.loads(bytes(answer.body)) == {"error": "No."}
    assert answer.headers["cache-control"] == "no-store"


def _ask(bench: Workbench, work: Any, body: bytes = b"{}") -> Any:
    return bench.answer(_request([body])[0], work, 1024)


def test_work_runs_beside_the_loop_one_at_a_time_and_the_rest_is_turned_away() -> None:
    inside: list[int] = []
    most: list[int] = []

    def work(values: Mapping[str, Any]) -> Mapping[str, Any]:
        assert threading.current_thread() is not threading.main_thread()
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.01)
        inside.pop()
        return {"told": values["n"]}

    async def run() -> list[JSONResponse]:
        bench = Workbench(most_waiting=4)
        return list(await asyncio.gather(*(_ask(bench, work, b'{"n": %d}' % n) for n in range(9))))

    answers = asyncio.run(run())
    told = [json.loads(bytes(answer.body)) for answer in answers]
    assert told[:4] == [{"told": n} for n in range(4)] and max(most) == 1
    assert all("Too many ask at once" in one["error"] for one in told[4:])
    assert [answer.status_code for answer in answers] == [200] * 4 + [429] * 5


def test_a_sentence_is_answered_and_the_bench_goes_on() -> None:
    def refuse(values: Mapping[str, Any]) -> Mapping[str, Any]:
        raise InvalidInput("Not like this.")

    async def run() -> list[int]:
        bench = Workbench(most_waiting=1)
        answers = [await _ask(bench, refuse), await _ask(bench, refuse, b"x" * 2000), await _ask(bench, dict)]
        with pytest.raises(ZeroDivisionError):
            await _ask(bench, lambda values: {"a": 1 // 0})
        return [answer.status_code for answer in [*answers, await _ask(bench, dict)]]

    assert asyncio.run(run()) == [422, 413, 200, 200]
