"""The codec: a small Mimi, trained, then used to encode whole streams; its decoder polished at the end.

Shapes: B pieces, N samples at 24 kHz, F frames of 1,920 samples, 8 codebooks.
"""
