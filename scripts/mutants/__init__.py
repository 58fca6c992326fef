"""Bugs planted on purpose. A quick test must find each.

In reading order:

* `planted`: the list of mutants, as data: a file of `bugs/` for each room
* `trial`: a mutant's tests, run against it
* `operators`: Cosmic Ray's operators, run in their own environment
* `campaign`: all mutants, over the given number of processes
"""
