"""What azserver, azclient, the trainer and azplay are built of.

The rooms, from the bottom: `games` (rules) and `host` (the machine: configuration, run folders, processes),
then `search` and `link` (connections), `store` (finished games on disk) and `diagnostics` (is a run well?),
`play` (engines, matches, ratings), and `lab` (azrun, azplay, recipes, reports). Nothing heavy is imported
here.
"""
