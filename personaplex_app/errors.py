"""The errors a person can meet, each named after what that person can do about it.

In: a code and a sentence. Out: exceptions that the command line and the page show as they are.
Must not know: torch, the web, the engine.
"""


class PersonaplexError(Exception):
    """Base of all errors with a sentence for the user.

    Attributes:
        code: short stable name, for programs.
        sentence: what is wrong and what mends it, for people.
    """

    code = "error"

    def __init__(self, sentence: str, *, code: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        if code is not None:
            self.code = code


class InvalidInput(PersonaplexError):
    """What was given cannot be used: change it and try again."""

    code = "invalid_input"


class NoCapacity(PersonaplexError):
    """Everything is taken: wait, or come back later."""

    code = "no_capacity"


class SessionEnded(PersonaplexError):
    """The conversation is over: start a new one."""

    code = "session_ended"


class ServerFault(PersonaplexError):
    """The server failed: nothing the caller did; the operator finds more in the log."""

    code = "server_fault"
