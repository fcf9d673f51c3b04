"""A prompt that leaves the trained shapes, written into the nearest one with all that can be taken over.

Guesses by simple signs: who works for whom, whose name is told, which words stand there. Nothing of the text is lost:
what is not taken over as company, kind or name stays as it is.
In: a text. Out: `Nearest`, or None where there is none nearer. Must not know: tokens, the model, the web.
"""

from __future__ import annotations

import re

from personaplex_app.prompt_shapes import (
    EMPTY_DESK,
    MARK,
    READ_CHARACTERS,
    TALKER,
    TEACHER,
    Desk,
    Nearest,
    one_line,
)

_PROPER = r"(?:(?:Dr|Mr|Mrs|Ms|St)\. )?[A-Z][\w'’&-]{0,30}(?: (?:of |and |the |& )?[A-Z][\w'’&-]{0,30}){0,4}"
_NAME = re.compile(
    rf"(?i:\b(?:your name is|my name is|you are called|you're called|i am called|named|called)) ({_PROPER})"
    rf"|(?i:\b(?:you are|you're|i am|i'm)) ({_PROPER})(?=,|\.| (?:and|from|who|at)\b)"
)
_COMPANY = re.compile(
    rf"(?i:\b(?:work|works|working|employed|hired) (?:for|at|by)) (?i:the )?({_PROPER})"
    rf"|(?i:\b(?:clerk|receptionist|agent|assistant|waiter|waitress|host|librarian|desk|adviser|representative"
    rf"|operator|employee) (?:at|of|for|from)) (?i:the )?({_PROPER})"
)
_KIND = re.compile(r"(?i:\s*,? which is an?|\s*, an?) ([\w' -]{2,60}?)(?=,|\.| and\b| where\b| in\b|$)")
_SERVICE = re.compile(
    r"\b(?:customers?|callers?|orders?|bookings?|reservations?|receptionist|clerk|help ?desk|call cent(?:re|er)"
    r"|support agent|shop|store|appointments?|deliver\w*|prices?|refunds?|information:|costs?)\b|[$£€]\s?\d",
    re.IGNORECASE,
)
_HELPER = re.compile(
    r"\b(?:assistant|teacher|tutor|coach|mentor|expert|advis[eo]r?|advice|teach|explain\w*|answer\w*|helpful)\b",
    re.IGNORECASE,
)
_SENTENCES = re.compile(r"(?<=[.!?])(?<!\bDr\.)(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bSt\.) ")
_ABOUT_ONESELF = re.compile(r"\b(?:I|My)\b")
_PLAIN_HELPER = re.compile(r"You are an? (?:[\w,-]+ ){0,6}(?:assistant|teacher|AI)\.?", re.IGNORECASE)
_BARE = re.compile(
    r"(?i:\b(?:you|i|are|am|is|was|a|an|the|and|your|my|name|named|called|work|works|working|for|at|by|which|employed"
    r"|hired|clerk|receptionist|agent|assistant|desk|employee|representative|as|hello|hi)\b)|[\s.,;:!?'’\"()-]"
)
_TO_YOU = (
    (re.compile(r"\bI am\b|\bI['’]m\b"), "You are"),
    (re.compile(r"\bI was\b"), "You were"),
    (re.compile(r"\bI['’]ve\b"), "You have"),
    (re.compile(r"\bI\b"), "You"),
    (re.compile(r"\bMy\b"), "Your"),
    (re.compile(r"\bmy\b"), "your"),
    (re.compile(r"\bme\b"), "you"),
    (re.compile(r"(?<=[\w,] )You\b"), "you"),
)


def nearest(prompt: str) -> Nearest:
    """The prompt in the nearest of the trained shapes."""
    text = one_line(prompt).replace(MARK, "").strip()
    read = text[:READ_CHARACTERS]
    company = _COMPANY.search(read)
    service, helper = len(_SERVICE.findall(read)), len(_HELPER.findall(read))
    if company or service > helper:
        desk = _desk(text, company)
        return Nearest("service", desk.prompt, desk)
    sentences = _sentences(text)
    if helper:
        own = [sentence for sentence in sentences if not _PLAIN_HELPER.fullmatch(sentence)]
        return Nearest("assistant", " ".join([TEACHER, *own]))
    return Nearest("casual", " ".join([TALKER, *(to_you(sentence) for sentence in sentences)]))


def to_you(sentence: str) -> str:
    """A sentence about oneself, said to the one it is about."""
    if not _ABOUT_ONESELF.search(sentence):
        return sentence
    for pattern, words in _TO_YOU:
        sentence = pattern.sub(words, sentence)
    return sentence


def _sentences(text: str) -> list[str]:
    return [sentence for sentence in _SENTENCES.split(text) if sentence]


def _desk(text: str, company: re.Match[str] | None) -> Desk:
    """What the text says of a desk; what is not said stands there in capitals."""
    head, told, facts = _divide(text)
    name = _NAME.search(head[:READ_CHARACTERS])
    kind = _KIND.match(head, company.end()) if company and company.end() <= len(head) else None
    taken = [found for found in (company, kind, name) if found]
    rest = [sentence for sentence in _sentences(head) if not _said(sentence, taken)]
    kept = " ".join([*rest, *([facts] if told else [])])
    return Desk(
        _group(company) or EMPTY_DESK.company,
        _group(kind) or EMPTY_DESK.kind,
        _group(name).rstrip(".") or EMPTY_DESK.name,
        kept or EMPTY_DESK.facts,
    )


def _divide(text: str) -> tuple[str, bool, str]:
    """What stands before and after the word `Information:`, and whether it is there."""
    found = re.search(r"\binformation: ?", text, re.IGNORECASE)
    return (text[: found.start()], True, text[found.end() :]) if found else (text, False, "")


def _said(sentence: str, taken: list[re.Match[str]]) -> bool:
    """Whether a sentence says nothing but what was taken over."""
    for found in taken:
        sentence = sentence.replace(_group(found), "")
    return not _BARE.sub("", sentence)


def _group(found: re.Match[str] | None) -> str:
    return next((text for text in found.groups() if text), "") if found else ""
