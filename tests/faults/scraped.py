"""Reads the `/metrics` of a process."""

from __future__ import annotations

from http.client import HTTPConnection, HTTPException

Metrics = dict[str, float]
"""Values by name and labels as written, such as `az_clients{role="clients"}`."""


def parsed(text: str) -> Metrics:
    """Parse the text format; comments are skipped."""
    told = [line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in told}


def scrape(port: int, connection: HTTPConnection | None = None) -> Metrics:
    """Return all metrics of a process on this machine; {} while it does not answer. `connection`: an existing
    one, perhaps to another place."""
    connection = connection or HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/metrics")
        return parsed(connection.getresponse().read().decode())
    except (OSError, HTTPException):
        return {}
    finally:
        connection.close()
