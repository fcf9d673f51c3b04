"""How well the codec speaks: the agents' sentences through it, as Whisper hears them.

In: a codec, a listener. Out: word error rates without and with the codec. Must not know: the language model.
"""

from __future__ import annotations

from random import Random

import torch
from moshi.models import loaders

from personaplex_app.model.codec import Codec
from personaplex_app.model.config import CODEBOOKS
from training.codec.in_a_call import decode, encode
from training.evaluation.listener import Listener
from training.evaluation.words import word_errors, words
from training.speech.hibari_voice import Speaker, speak
from training.speech.levels import Sound, trimmed
from training.speech.orders import AGENT_VOICES
from training.world.answers import agent_sentences

FRAME = 1920


def codec_word_errors(codec: Codec, listener: Listener, sentences: int, seed: int) -> dict[str, float]:
    """Word error rates of so many of the agents' sentences, half of them each voice's; as `word_errors_of`."""
    factors, said = list(AGENT_VOICES.values()), []
    for number, text in enumerate(Random(seed).sample(agent_sentences(), sentences)):
        pcm, _ = trimmed(speak(text, Speaker(*factors[number % len(factors)], seed=number))[0])
        said.append((text, pcm))
    return word_errors_of(codec, listener, said)


@torch.inference_mode()
def word_errors_of(codec: Codec, listener: Listener, said: list[tuple[str, Sound]]) -> dict[str, float]:
    """`plain` and `codec`: errors over all words, as a listener hears the sounds before the codec and after it."""
    mimi = loaders.get_mimi(None, codec.config.mimi, num_codebooks=CODEBOOKS)
    mimi.load_state_dict(codec.mimi.state_dict())
    wanted = plain = coded = 0
    for text, pcm in said:
        sound = torch.zeros(1, (-(-len(pcm) // FRAME) + 4) * FRAME)
        sound[0, FRAME : FRAME + len(pcm)] = torch.from_numpy(pcm)
        made = decode(mimi, encode(mimi, sound))[0].numpy()
        wanted += len(words(text))
        plain += word_errors(words(text), words(listener.listen(pcm)))
        coded += word_errors(words(text), words(listener.listen(made)))
    return {"plain": plain / wanted, "codec": coded / wanted}
