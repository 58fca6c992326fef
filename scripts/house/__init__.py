"""The codebase in figures: lines, files, import cycles, class names; and its diagrams.

In reading order:

* `tree`: the sources of a checkout as syntax trees, and the names in them, without running any code
* `imports`: the import graph, and its cycles
* `picture`: the diagrams of ARCHITECTURE.md, drawn from the imports
"""
