"""The language model: talks assembled from codes, a fast network equal to the app's, its training and its file.

Shapes: B talks, T positions, K = 17 streams (0 agent text, 1-8 agent audio, 9-16 user audio), D width.
"""
