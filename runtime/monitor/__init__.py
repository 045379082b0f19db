"""What a process shows to those who watch it: /metrics, /livez and /readyz over HTTP (docs/metrics.md)."""
