"""A worker of this package that may use almost none of its GPU's memory.

Filling the memory would harm other programs.
"""

import torch

from gpu_tasks.provider.execution import worker

SHARE = 1e-6

if __name__ == "__main__":
    torch.cuda.set_per_process_memory_fraction(SHARE, 0)
    worker.main()
