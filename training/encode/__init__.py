"""Speech becomes codes: the agents' sentences one by one, whole user tracks in one stream with all their past."""
