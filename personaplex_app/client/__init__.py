"""A program's own line to a persona, over the socket of a served page: `docs/protocol.md` says what travels.

    async with connect("http://127.0.0.1:7860") as line, line.talk(prompt="You enjoy a good conversation.") as talk:
        await talk.started()  # waits in line, answers when it is our turn
        await talk.say(pcm)  # float32 [n] at 24 kHz, at the pace of speech; `send` takes a live microphone's pieces
        piece = await talk.receive()  # float32 [m], or None once the talk is over
        async for event in talk: ...  # Waiting, TalkState, Words, Said, Guard, Echo, Notice, Reconnecting, Ended ...

Whatever goes wrong is an error of `personaplex_app.errors`. Must not know: torch, the engine, the web's side.
"""

from personaplex_app.client.line import Line, connect
from personaplex_app.client.messages import (
    Admitted,
    Echo,
    Ended,
    Event,
    Guard,
    Health,
    Hello,
    Lost,
    Notice,
    Pong,
    Reconnecting,
    Recording,
    Refused,
    Said,
    StartedOver,
    TalkState,
    Turn,
    Unknown,
    Waiting,
    Words,
    Xray,
)
from personaplex_app.client.talk import Talk

__all__ = [
    "Admitted",
    "Echo",
    "Ended",
    "Event",
    "Guard",
    "Health",
    "Hello",
    "Line",
    "Lost",
    "Notice",
    "Pong",
    "Reconnecting",
    "Recording",
    "Refused",
    "Said",
    "StartedOver",
    "Talk",
    "TalkState",
    "Turn",
    "Unknown",
    "Waiting",
    "Words",
    "Xray",
    "connect",
]
