"""Games of a person against a network of a run."""
