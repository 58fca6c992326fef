"""The house in figures: lines, files, circles of imports, class names; and its pictures.

In reading order:

* `tree`: the sources of a checkout as syntax trees, and the names in them; nothing of them is run
* `imports`: who imports whom, and which files stand in a circle
* `picture`: the pictures of ARCHITECTURE.md, drawn from the imports
"""
