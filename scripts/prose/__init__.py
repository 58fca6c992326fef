"""The clarity of help texts, messages and docstrings in figures.

In reading order:

* `texts`: the texts of a checkout, by kind
* `figures`: the measures of texts and their bars
* `code`: comments and the length of names
* `__main__`: `make prose`
"""
