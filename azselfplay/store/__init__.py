"""The games of a run, in one SQLite file, games.db.

`store.sqlite.Store` writes: the trainer commits games and refusals, and learns the status of each.
`store.reader.StoreReader` reads at the same time, for all other uses: the trainer in order of arrival or by
uid, commands and reports a range of numbers. `store.rows.Stored` is a row; it hands out its record only if
the record is intact. `store.archive` keeps a second copy of the games, and the checkpoints, in another place.
"""
