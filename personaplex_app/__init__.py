"""personaplex_app: anyone with a browser talks, in real time and full duplex, with a persona.

The map: `audio`, `controls`, `errors`, `settings`, `voices`, `records` are pure; `model` needs torch and knows no
sessions; `engine` schedules and knows no torch; `web` alone imports gradio and fastrtc; `assemble` joins them;
`cli` is the command line.
"""

from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.errors import InvalidInput, NoCapacity, PersonaplexError, ServerFault, SessionEnded

__all__ = [
    "Choices",
    "InvalidInput",
    "NoCapacity",
    "PersonaplexError",
    "SamplingSettings",
    "ServerFault",
    "SessionEnded",
]
