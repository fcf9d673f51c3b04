"""The pipeline that makes the packaged miniature: a little world, its speech, codec, language model, package, marks.

In: packages with voices, a work directory. Out: a checkpoint directory in the Hub's layout, a table of marks.
It may import the app; the app never imports it. Every step is one command, resumes, and logs against time.
"""
