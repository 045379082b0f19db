"""A person against a network in the terminal: `azplay play`."""
