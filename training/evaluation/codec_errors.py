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
from training.speech.levels import trimmed
from training.speech.orders import AGENT_VOICES
from training.world.answers import agent_sentences

FRAME = 1920


@torch.inference_mode()
def codec_word_errors(codec: Codec, listener: Listener, sentences: int, seed: int) -> dict[str, float]:
    """Word error rates over so many sentences, half of them each voice's: of the synthesizer, and of the codec."""
    mimi = loaders.get_mimi(None, codec.config.mimi, num_codebooks=CODEBOOKS)
    mimi.load_state_dict(codec.mimi.state_dict())
    wanted = plain = coded = 0
    chosen = Random(seed).sample(agent_sentences(), sentences)
    for number, text in enumerate(chosen):
        factors = list(AGENT_VOICES.values())[number % len(AGENT_VOICES)]
        pcm, _ = trimmed(speak(text, Speaker(*factors, seed=number))[0])
        sound = torch.zeros(1, (-(-len(pcm) // FRAME) + 4) * FRAME)
        sound[0, FRAME : FRAME + len(pcm)] = torch.from_numpy(pcm)
        made = decode(mimi, encode(mimi, sound))[0].numpy()
        wanted += len(words(text))
        plain += word_errors(words(text), words(listener.listen(pcm)))
        coded += word_errors(words(text), words(listener.listen(made)))
    return {"synthesizer": plain / wanted, "codec": coded / wanted}
