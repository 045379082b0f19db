"""`azcluster`: one file says what runs where. docs/many_machines.md."""
