"""Records of programs on the disk: a commit that returned survives `kill -9` and a power cut.

In reading order:

* `folders`: folders for their owner only, and their names on the disk
* `database`: a private SQLite file with a schema and its version
"""
