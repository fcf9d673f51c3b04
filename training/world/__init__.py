"""The closed little world: who the persona may be, what may be asked, what is then right to say. No sound, no torch."""
