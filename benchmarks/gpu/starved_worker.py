"""A worker of the package that may have next to nothing of its GPU's memory, so that no neighbour suffers."""

import torch

from gpu_tasks.provider.execution import worker

SHARE = 1e-6

if __name__ == "__main__":
    torch.cuda.set_per_process_memory_fraction(SHARE, 0)
    worker.main()
