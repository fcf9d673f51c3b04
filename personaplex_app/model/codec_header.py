"""Whether a file can be the codec that a checkpoint describes, by its header alone.

In: a safetensors file, a configuration. Out: nothing, or InvalidInput that names what does not fit.
Must not know: the tensors' numbers, streaming. `codec.py` reads the whole file and says the same in its own words.
"""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError, safe_open

from personaplex_app.errors import InvalidInput
from personaplex_app.model.codec import list_words
from personaplex_app.model.config import CheckpointConfig
from personaplex_app.model.stand_in_numbers import codec_slots, old_codec_name


def check_codec_header(path: Path, config: CheckpointConfig) -> None:
    """Raises InvalidInput where the file is not whole, or lacks a tensor or has one of another shape."""
    try:
        expected = {slot.name: slot.shape for slot in codec_slots(config)}
    except Exception as error:  # moshi asserts and indexes its way through whatever config.json says
        raise InvalidInput(f"{path}: mimi_config in config.json is not usable: {error!r}") from None
    try:
        with safe_open(path, framework="pt") as file:
            names = file.keys()
            found = {old_codec_name(name): tuple(file.get_slice(name).get_shape()) for name in names}
    except (SafetensorError, OSError) as error:
        raise InvalidInput(f"{path} is not a whole safetensors file ({error}).") from None
    missing = [name for name in expected if name not in found]
    wrong = [name for name, shape in expected.items() if found.get(name, shape) != shape]
    for names, verb in ((missing, "it lacks"), (wrong, "of another shape is")):
        if names:
            raise InvalidInput(f"{path} is not the codec that this checkpoint describes: {verb} {list_words(names)}.")
