"""The house in figures: circles, folders, style in the small, tests, and a walk of a unit through the market.

In reading order:

* `tree`: the sources of a checkout as syntax trees; nothing of them is run
* `imports`: who imports whom, and which files stand in a circle
* `style`: style in the small, counted over syntax trees
* `calls`: calls resolved by what the source says
* `walk`: the walk of a unit through the market, call by call
* `picture`: the pictures of ARCHITECTURE.md, drawn from the imports
"""
