"""What the page's WebRTC component says to the server, said without a page: offers and inputs over gradio's HTTP.

In: the page's address and cookies. Out: answers to offers; a ticket posted where the component asks for its inputs.
Must not know: WebRTC itself.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx

from personaplex_app.errors import InvalidInput, NoCapacity, ServerFault

TICKET_ID = "ticket"
TIMEOUT_SECONDS = 20.0


@dataclass(frozen=True)
class Form:
    """Where the page's script puts things.

    Attributes:
        component: the WebRTC component's id. event: the number of the event that collects its inputs.
        inputs: ids of the inputs, in order. ticket: the id of the box for the ticket.
    """

    api: str
    component: int
    event: int
    inputs: tuple[int, ...]
    ticket: int

    def values(self, webrtc_id: str, ticket: str) -> list[str | None]:
        """The inputs' values."""
        known = {self.component: webrtc_id, self.ticket: ticket}
        return [known.get(at) for at in self.inputs]


def read_form(config: dict[str, Any]) -> Form:
    """From gradio's `/config`; raises InvalidInput where that is no page of ours."""
    try:
        component = next(item["id"] for item in config["components"] if item["type"] == "webrtc")
        ticket = next(item["id"] for item in config["components"] if item["props"].get("elem_id") == TICKET_ID)
        event = next(item for item in config["dependencies"] if [component, "tick"] in map(list, item["targets"]))
        return Form(config["api_prefix"], component, event["id"], tuple(event["inputs"]), ticket)
    except (KeyError, TypeError, StopIteration):
        words = "The server's page has no WebRTC component with a ticket of ours."
        raise InvalidInput(words, code="not_our_page") from None


class PageWire:
    """One open page.

    Attributes:
        webrtc_id: the name that this page gives its connection.
    """

    def __init__(self, http: httpx.AsyncClient, form: Form) -> None:
        self.webrtc_id = secrets.token_urlsafe(9)
        self._http = http
        self._form = form
        self._session = secrets.token_urlsafe(8)

    async def offer(self, sdp: str) -> str:
        """Posts an offer; returns the answer's SDP. Raises NoCapacity or ServerFault."""
        body = {"sdp": sdp, "type": "offer", "webrtc_id": self.webrtc_id}
        answer = await self._post(
            "component_server/",
            {"data": body, "component_id": self._form.component, "fn_name": "offer", "session_hash": self._session},
        )
        if isinstance(answer, dict) and answer.get("type") == "answer":
            return str(answer["sdp"])
        meta = answer.get("meta") if isinstance(answer, dict) else None
        code = str(meta.get("error")) if isinstance(meta, dict) else "bad_answer"
        raise NoCapacity(f"The server refused the offer: {code}.", code=code)

    async def send_inputs(self, ticket: str) -> None:
        """What the page does when the server asks for the component's inputs; raises ServerFault."""
        form = self._form
        await self._post(
            "queue/join",
            {
                "data": form.values(self.webrtc_id, ticket),
                "event_data": None,
                "fn_index": form.event,
                "trigger_id": form.component,
                "session_hash": self._session,
            },
        )

    async def _post(self, path: str, body: dict[str, Any]) -> Any:
        try:
            answer = await self._http.post(f"{self._form.api}/{path}", json=body)
            answer.raise_for_status()
            return answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise ServerFault(f"Signalling failed: {error!r}.", code="signalling_failed") from None


@contextlib.asynccontextmanager
async def open_page(page: str, cookie: str | None) -> AsyncIterator[PageWire]:
    """Reads the page's form; raises InvalidInput or ServerFault."""
    headers = {"Cookie": cookie} if cookie else {}
    async with httpx.AsyncClient(base_url=page, headers=headers, timeout=TIMEOUT_SECONDS) as http:
        try:
            config = (await http.get("/config")).raise_for_status().json()
        except (httpx.HTTPError, ValueError) as error:
            raise ServerFault(f"The page's form cannot be read: {error!r}.", code="signalling_failed") from None
        yield PageWire(http, read_form(config))
