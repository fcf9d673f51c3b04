"""The decoder's polish: the agents' voices from fixed codes, against discriminators at the end."""
