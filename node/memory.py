"""How Python's collector of reference cycles runs in a node.

What always holds: what lives as long as the node (the state's trie above all) is never looked through again, and a
block of a few thousand extrinsics is executed without a search through all that recent blocks left behind. Python's
own thresholds, made for programs with few objects, search after 700 new ones: a third of the time of an import.
"""

import gc

THRESHOLDS = (50_000, 5, 5)
"""New objects until the youngest are searched, and how often that until older and oldest are: some 100 MB at most."""


def settle() -> None:
    """Keep what there is now for good, and collect the rest in larger steps; called once, when the node has started."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
