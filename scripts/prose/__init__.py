"""The clarity of help texts, messages and docstrings in figures.

In reading order:

* `texts`: the texts of a checkout, by kind
* `figures`: the measures and their bars
* `__main__`: `make prose`
"""
