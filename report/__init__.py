"""`azplay report`: one page that says how a run is going, and what is wrong with it."""
