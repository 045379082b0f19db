"""`azplay games`: what a run has played, from its games.db."""
