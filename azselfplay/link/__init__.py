"""Connections between machines: sockets, the door with CURVE, keys, and the transfer of weights."""
