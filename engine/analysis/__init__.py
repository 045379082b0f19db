"""`azplay analyse`: positions in, evaluations out, one JSON object a line (docs/analysis.md)."""
