"""What a process tells those who watch it: /metrics, /livez and /readyz over HTTP (docs/metrics.md)."""
