"""`azplay web`: the runs of a folder as pages in a browser. It is imported when somebody asks for it."""
