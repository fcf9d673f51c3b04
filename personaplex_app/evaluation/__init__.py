"""Measuring a served page from outside: real clients, paced on an absolute schedule, every call in the count.

In: a server's address. Out: figures. Must not know: how the server works inside.
"""
