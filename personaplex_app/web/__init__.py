"""The page and its wire: the only room that imports gradio and fastapi; fastrtc in `handler.py` and `signalling.py`.

In: an engine and settings. Out: a served page.
Must not know: torch, how a step works.
"""
