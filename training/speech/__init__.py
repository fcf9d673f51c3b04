"""Speech for the little world: agents and users from several synthesizers, on shelves that travel as Opus.

Sound is mono, 24 kHz; times are samples unless a name says otherwise.
"""
