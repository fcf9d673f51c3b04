"""`python -m training.world`: writes down what can be said, and makes the tokenizer from it.

In: the command line. Out: `WORK/world`: `tokenizer.model`, `agent.txt`, `user.txt`, `held_out.txt`.
Must not know: sound.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import sentencepiece

from training.journal import Journal
from training.places import Places, parser
from training.sizes import Sizes, size
from training.world.answers import agent_sentences
from training.world.personas import draw_persona
from training.world.questions import user_sentences

PROMPTS, REPEATS = 6000, 60  # how many prompts, and each sentence how often, the tokenizer is made from
SPECIAL = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": 3}


def write_tokenizer(path: Path, sizes: Sizes) -> None:
    """A SentencePiece model of prompts and sentences; byte fallback spells every other word."""
    rng = Random(sizes.seed)
    corpus = [prompt for _ in range(PROMPTS) if (prompt := draw_persona(rng).prompt)]
    corpus += agent_sentences() * REPEATS
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(corpus),
            model_writer=file,
            vocab_size=sizes.text_card,
            model_type="bpe",
            byte_fallback=True,
            user_defined_symbols=["<system>"],
            split_digits=False,
            normalization_rule_name="identity",
            hard_vocab_limit=False,
            character_coverage=1.0,
            max_sentence_length=4000,
            minloglevel=2,
            **SPECIAL,
        )
    partial.replace(path)


def main(arguments: list[str] | None = None) -> None:
    chosen = parser(__doc__).parse_args(arguments)
    places, sizes = Places(chosen.work), size(chosen.size, chosen.pace)
    if places.tokenizer.exists():
        return
    with Journal(places.work, "world") as journal:
        folder = places.tokenizer.parent
        folder.mkdir(parents=True, exist_ok=True)
        said = {
            "agent": agent_sentences(),
            "user": [asked.text for asked in user_sentences()],
            "held_out": [asked.text for asked in user_sentences(held_out=True)],
        }
        for who, sentences in said.items():
            (folder / f"{who}.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
        write_tokenizer(places.tokenizer, sizes)
        journal.note("sentences", **{who: len(sentences) for who, sentences in said.items()})


if __name__ == "__main__":
    main()
