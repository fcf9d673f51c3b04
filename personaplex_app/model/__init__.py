"""All that needs torch: the checkpoint, the codec, the two transformers and the stepper that owns their state.

In: checkpoint directories, prompts, heard frames. Out: spoken frames and text tokens.
Must not know: sessions, threads, the web.
"""

import os

# oneDNN's AVX2 convolutions round as the reference's did: on the random miniature, whose last codebooks hold pairs
# of entries 1e-6 apart, this alone decides 1 % of the codes. It costs nothing measurable.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
# moshi compiles small functions lazily through inductor: a minute at the first frame, for nothing here.
os.environ.setdefault("NO_TORCH_COMPILE", "1")
