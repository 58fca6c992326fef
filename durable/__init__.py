"""Records of programs on the disk: a commit that returned survives `kill -9` and a power cut.

In reading order:

* `database`: a private SQLite file with a schema and its version
"""
