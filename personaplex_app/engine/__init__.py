"""Who talks when: slots, sessions, queues and the one thread that touches the stepper.

In: choices and heard PCM from the web's thread. Out: spoken frames, words and reasons, bounded and counted.
Must not know: torch, the web, how a frame becomes an answer.
"""
