"""Proofs that it learns: a recipe is trained within a fixed time, judged on known truth, and written down.

`python -m experiments NAME` (or `make learn-NAME`) trains `experiments/recipes/NAME.toml` once per seed,
with the same processes that anybody starts, and fills `results/NAME/`.
"""
