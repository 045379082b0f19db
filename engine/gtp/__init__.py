"""The engine's side of GTP 2, the Go Text Protocol (Gunnar Farneback's draft 2 of the specification)."""
