"""What a process says on `/metrics`."""

from __future__ import annotations

from http.client import HTTPConnection, HTTPException

Metrics = dict[str, float]
"""By name and labels as they are told, such as `az_clients{role="clients"}`."""


def parsed(text: str) -> Metrics:
    """Of the text format; comments are left out."""
    told = [line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in told}


def scrape(port: int, connection: HTTPConnection | None = None) -> Metrics:
    """All metrics of a process of this machine; {} while it does not answer. `connection`: one that is made
    already, elsewhere perhaps."""
    connection = connection or HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/metrics")
        return parsed(connection.getresponse().read().decode())
    except (OSError, HTTPException):
        return {}
    finally:
        connection.close()
