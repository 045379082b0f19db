"""`azplay players`: whose games are unlike the others', what a search says of them, quarantine."""
