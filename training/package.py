"""`python -m training.package`: what was trained, as a checkpoint directory that the app loads.

In: the language model, the polished codec, codes, tokenizer. Out: `WORK/package` in the Hub's layout: 8-bit rows, a
half-precision codec, voices, personas, `config.json`.
Must not know: how anything was trained.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import sentencepiece
import torch
from safetensors.torch import save_file
from torch import Tensor

from personaplex_app.model.checkpoint import CODEC_FILE, CONFIG_FILE, TOKENIZER_FILE, VOICES_DIR, WEIGHTS_FILE
from personaplex_app.model.config import read_config
from personaplex_app.model.stand_in_voices import voice_fields
from training.encode.shelves import Agents, Constants, read_agents, read_constants
from training.journal import Journal
from training.language.__main__ import architecture
from training.language.export import file_tensors
from training.language.network import Network
from training.places import Places, parser
from training.shrink import restored, shrunk
from training.sizes import Sizes, language_config, mimi_config, size

SAMPLING = {"audio_temperature": 0.6, "audio_top_k": 50, "text_temperature": 0.3, "text_top_k": 25}
VOICE_SENTENCES = ("How can I help you?", "The sky is blue.", "I like dancing.")
VOICE_FRAMES = 36
PERSONAS = Path(__file__).parent / "personas"
SMALLEST_USAGE = 1e-5


def codec_tensors(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """The codec in half precision; codebooks as their vectors, not as the sums that training keeps."""
    made = {}
    for name, tensor in stored.items():
        if name.endswith("embedding_sum"):
            usage = stored[name.replace("embedding_sum", "cluster_usage")].float().clamp(min=SMALLEST_USAGE)
            tensor = tensor.float() / usage[:, None]
        elif name.endswith("cluster_usage"):
            tensor = torch.ones_like(tensor)
        made[name] = (tensor.half() if tensor.is_floating_point() else tensor).contiguous()
    return made


def voice_codes(agents: Agents, voice: str) -> Tensor:
    """Codes int64 [8, T] of some sentences, the voice's prompt."""
    texts = agents.by_voice()[voice]
    known = [texts[text][0] for text in VOICE_SENTENCES if text in texts] or [one[0] for one in texts.values()]
    joined = np.concatenate([agents.of(index) for index in known], 1)[:, :VOICE_FRAMES]
    return torch.from_numpy(joined.astype(np.int64))


def write_config(path: Path, sizes: Sizes, text_card: int, constants: Constants) -> None:
    """`config.json`: both architectures, the codec's constants, how to draw, how long a past was trained."""
    written = {
        "lm_config": language_config(sizes.language, text_card),
        "mimi_config": mimi_config(sizes.codec),
        "silence_codes": constants.silence,
        "sine_codes": constants.sine,
        "trained_positions": max(phase.positions for phase in sizes.language.phases),
        "sampling": SAMPLING,
    }
    path.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


def write_package(places: Places, sizes: Sizes, target: Path) -> None:
    """All files, written beside the place and then put there."""
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    (partial / VOICES_DIR).mkdir(parents=True)
    text_card = sentencepiece.SentencePieceProcessor(model_file=str(places.tokenizer)).vocab_size()
    shutil.copy(places.tokenizer, partial / TOKENIZER_FILE)
    shutil.copytree(PERSONAS, partial / "personas")
    write_config(partial / CONFIG_FILE, sizes, text_card, read_constants(places.codes))
    save_file(codec_tensors(torch.load(places.decoder, weights_only=True)), partial / CODEC_FILE)
    network = Network(architecture(sizes.language, text_card))
    network.load_state_dict(torch.load(places.language, weights_only=True))
    tensors = shrunk(file_tensors(network))
    save_file(tensors, partial / WEIGHTS_FILE)
    _write_voices(partial, tensors, read_agents(places.codes))
    shutil.rmtree(target, ignore_errors=True)
    partial.replace(target)


def _write_voices(partial: Path, tensors: dict[str, Tensor], agents: Agents) -> None:
    """Voices as the released ones are kept: the embeddings that these weights give for their codes."""
    tables = partial / "tables.partial"
    save_file({name: one for name, one in restored(tensors).items() if "emb." in name}, tables)
    config = read_config(partial / CONFIG_FILE)
    for voice in agents.by_voice():
        fields = voice_fields(voice_codes(agents, voice), tables, config)
        fields["embeddings"] = fields["embeddings"].to(torch.bfloat16)
        torch.save(fields, partial / VOICES_DIR / f"{voice}.pt")
    tables.unlink()


def main(arguments: list[str] | None = None) -> None:
    chosen = parser(__doc__).parse_args(arguments)
    places, sizes = Places(chosen.work), size(chosen.size, chosen.pace)
    with Journal(places.work, "package") as journal:
        write_package(places, sizes, places.package)
        files = sorted(path for path in places.package.rglob("*") if path.is_file())
        journal.note("package", megabytes=sum(path.stat().st_size for path in files) / 1e6, files=len(files))


if __name__ == "__main__":
    main()
