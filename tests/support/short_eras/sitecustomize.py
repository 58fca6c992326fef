"""A development chain with short epochs: Python imports this file before any other if its folder is on the path.

The length of an epoch belongs to the program and to no chain specification. A node that a test starts, and the node's
own processes, thus get another number before they read it. Nothing else of them changes.
"""

import os
from dataclasses import replace

from consensus import parameters

parameters.DEVNET = replace(parameters.DEVNET, epoch_blocks=int(os.environ["EPOCH_BLOCKS"]))
