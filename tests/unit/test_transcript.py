"""Words at their seconds in correct Unicode, however tokens cut letters and words."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from personaplex_app.records.transcript import Remark, Transcript, Word


def _transcript(*pieces: bytes, every: int = 1) -> Transcript:
    transcript = Transcript()
    for index, piece in enumerate(pieces):
        transcript.add(piece, index * every)
    return transcript


def test_words_begin_where_a_space_does() -> None:
    transcript = _transcript(b" Hel", b"lo", b"", b" wor", b"ld", b".", every=5)
    assert transcript.text == "Hello world."
    assert transcript.words == [Word("Hello", 0.0), Word("world.", 1.2)]


def test_a_word_without_its_space_joins_the_one_before() -> None:
    assert [word.text for word in _transcript(b"It", b"'s", b" me").words] == ["It's", "me"]


def test_letters_in_bytes_are_shown_whole_and_never_half() -> None:
    transcript, shown = Transcript(), []
    for byte in " Zürich 😀 東京".encode():
        shown.append(transcript.add(bytes([byte]), len(shown)))
    assert "".join(shown) == transcript.text == "Zürich 😀 東京"
    assert not any("\ufffd" in piece for piece in shown)
    assert [word.text for word in transcript.words] == ["Zürich", "😀", "東京"]
    assert [word.start_seconds for word in transcript.words] == [0.0, 0.64, 1.04]


def test_remarks_stand_at_their_seconds_beside_the_words() -> None:
    transcript = _transcript(b" Hello")
    transcript.note("steadied", "repeats", "no", "It keeps saying no.", 25)
    transcript.remarks.clear()
    assert transcript.remarks == [Remark("steadied", "repeats", "no", "It keeps saying no.", 2.0)]
    assert transcript.text == "Hello" and len(transcript.words) == 1


def test_half_a_letter_waits() -> None:
    transcript = Transcript()
    first, second = "é".encode()
    assert transcript.add(b" caf", 0) == "caf" and transcript.add(bytes([first]), 1) == ""
    assert transcript.text == "caf"
    assert transcript.add(bytes([second]), 2) == "é" and transcript.text == "café"


def test_bytes_that_are_no_letter_are_marked_and_the_rest_goes_on() -> None:
    transcript = _transcript(b" ok", b"\xff", b" go", b" \xc3", b" on")
    assert transcript.text == "ok\ufffd go \ufffd on"
    assert [word.text for word in transcript.words] == ["ok\ufffd", "go", "\ufffd", "on"]


def test_html_is_kept_as_it_is() -> None:
    text = '<script>alert("x")</script> &amp; <b>bold</b>'
    transcript = _transcript(*[b" " + word.encode() for word in text.split(" ")])
    assert transcript.text == text
    assert " ".join(word.text for word in transcript.words) == text


def test_silence_says_nothing() -> None:
    transcript = _transcript(b"", b"", b" ", b"")
    assert transcript.words == [] and transcript.text == ""


@given(st.text(), st.data())
def test_any_text_in_any_pieces_comes_out_whole(text: str, data: st.DataObject) -> None:
    encoded = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(encoded)), max_size=10)))
    bounds = [0, *cuts, len(encoded)]
    transcript, shown = Transcript(), ""
    for index, (start, end) in enumerate(itertools.pairwise(bounds)):
        shown += transcript.add(encoded[start:end], index)
    assert transcript.text == shown == text.lstrip(" ")
    joined = "".join(word.text for word in transcript.words)
    assert "".join(joined.split()) == "".join(text.split())


@given(st.lists(st.binary(max_size=6), max_size=20))
def test_any_bytes_give_words_in_order(pieces: list[bytes]) -> None:
    words = _transcript(*pieces).words
    starts = [word.start_seconds for word in words]
    assert starts == sorted(starts) and all(word.text.strip() for word in words)
