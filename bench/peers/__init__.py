"""Other programs beside ours: same game, size of network and simulations, in turns (bench/PEERS.md)."""
