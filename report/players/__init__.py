"""`azplay players`: whose games differ from the others', what a second search says about them, quarantine."""
