"""One gate: the best player against a candidate, as a process that azserver starts."""
