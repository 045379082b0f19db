"""`azplay analyse`: positions in, evaluations out, one JSON object per line (docs/use_a_network.md)."""
