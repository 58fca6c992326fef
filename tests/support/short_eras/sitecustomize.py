"""Python imports this before anything else where its folder is on the path: a chain for development with short epochs.

How long an epoch is belongs to the program and to no chain specification. So a node that a test starts, and the
processes that the node starts, are given another number before they read it; nothing else of them is changed.
"""

import os
from dataclasses import replace

from consensus import parameters

parameters.DEVNET = replace(parameters.DEVNET, epoch_blocks=int(os.environ["EPOCH_BLOCKS"]))
