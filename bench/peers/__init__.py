"""Comparison with other programs: same game, size of network and simulations, in turns (bench/PEERS.md)."""
