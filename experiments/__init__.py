"""Proof that it learns: a recipe is trained for a fixed time, judged on known truth, and documented.

`python -m experiments NAME` (or `make learn-NAME`) trains `experiments/recipes/NAME.toml` once per seed, with
the usual processes, and fills `results/NAME/`.
"""
