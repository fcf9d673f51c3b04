"""`python -m training.speech`: says the little world's sentences, family after family of voices.

In: the command line. Out: shelves in `WORK/speech/FAMILY`; shelves that are there are left alone.
Must not know: training.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from training.journal import Journal
from training.places import Places, parser
from training.sizes import size
from training.speech import kokoro_voice, plain_voices
from training.speech.orders import FAMILIES, Order, fulfil, orders
from training.speech.shelf import Said, write_shelf

TOGETHER = {"kokoro": 64}  # utterances a shelf: a slow family is kept often
OTHERS_TOGETHER = 4096


def _is_here(family: str, kokoro_voices: Path) -> bool:
    if family == "kokoro":
        return kokoro_voice.is_here(kokoro_voices)
    return family in ("agents", "hibari") or plain_voices.is_here({"espeak": "espeak-ng"}.get(family, family))


def _shelves(family: str, wanted: list[Order], length: int) -> Iterator[tuple[str, list[Order]]]:
    for number, first in enumerate(range(0, len(wanted), length)):
        yield f"{family}-{number:04d}", wanted[first : first + length]


@contextmanager
def _sayers(processes: int, kokoro_voices: Path) -> Iterator[Callable[[list[Order]], Iterable[Said]]]:
    """Fulfils orders in so many processes, in any order; one is this one."""
    say = partial(fulfil, kokoro_voices=kokoro_voices)
    if processes == 1:
        yield lambda part: map(say, part)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield lambda part: pool.imap_unordered(say, part, 4)


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    options.add_argument("--renderings", type=int, default=None, help="per sentence; default: what the size says")
    options.add_argument("--packed", action="store_true", help="as Opus, to travel")
    options.add_argument("--processes", type=int, default=os.cpu_count())
    options.add_argument("--kokoro-voices", type=Path, default=Path("kokoro-js/package/voices"))
    chosen = options.parse_args(arguments)
    places, sizes = Places(chosen.work), size(chosen.size, chosen.pace)
    with Journal(chosen.work, "speech") as journal, _sayers(chosen.processes, chosen.kokoro_voices) as say:
        for family in chosen.families:
            if not _is_here(family, chosen.kokoro_voices):
                journal.note("left out", family=family, why="not installed")
                continue
            renderings = chosen.renderings or sizes.renderings[family]
            wanted = orders(family, renderings, sizes.seed, chosen.kokoro_voices)[: sizes.most_utterances]
            for name, part in _shelves(family, wanted, TOGETHER.get(family, OTHERS_TOGETHER)):
                if (places.speech / family / f"{name}.jsonl").exists():
                    continue
                if chosen.seconds is not None and journal.seconds > chosen.seconds:
                    return
                began = time.time()
                count = write_shelf(places.speech / family, name, say(part), packed=chosen.packed)
                journal.note("shelf", name=name, utterances=count, seconds=time.time() - began)
        places.done("speech").write_text("", encoding="utf-8")


if __name__ == "__main__":
    main()
