"""The house in figures: circles, folders, style in the small, tests, and a walk of a unit through the market.

`tree` reads the sources, `imports` finds circles, `style` counts, `calls` resolves calls, `walk` follows them.
"""
