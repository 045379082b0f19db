"""`azplay web`: the runs of a folder as pages in a browser. Imported only when needed."""
