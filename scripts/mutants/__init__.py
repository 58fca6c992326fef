"""Bugs planted on purpose, each of which a quick test must find.

In reading order:

* `planted`: the list of mutants, as data: a file of `bugs/` for each room
* `trial`: the tests that are meant to kill a mutant, run against it
* `operators`: those operators, run in an environment of their own
* `campaign`: all of them, over as many processes as asked for
"""
