"""The games of a run, in one SQLite file, games.db.

`store.sqlite.Store` writes: the trainer's intake commits games and refusals, and learns of each what became
of it. `store.reader.StoreReader` reads beside it, for everybody: the trainer in order of arrival or by uid,
commands and reports a range of numbers. `store.rows.Stored` is a row; its record leaves it only if whole.
"""
