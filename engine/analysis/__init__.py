"""`azplay analyse`: positions in, evaluations out, one JSON object per line (docs/analysis.md)."""
