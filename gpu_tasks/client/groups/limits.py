"""The bounds and choices that options show. A test compares them with the market's own."""

# Numbers, because an import of the market takes the chain's rules along.
REQUESTS_MAX = 4096
"""The most requests in a unit."""
RACERS_MAX = 8
SEGMENTS_MAX = 1023
SLOTS_MAX = 32
REQUEUES_MAX = 32
PACE_MAX = 1_000_000_000
SERVICE_NAME_BYTES_MAX = 32
CLASS_NAMES = ("cpu", "consumer", "datacenter")
CLASS_CHOICES = ("usual", "any", *CLASS_NAMES)
GPU_CHOICES = ("consumer", "datacenter", "any")
NETWORKS = ("none", "outbound")
FILE_FORMS = ("lines", "jsonl", "openai")
FOREIGN_FORMS = ("sbatch", "compose", "sdl")
TASK_KINDS = ("TrainingTask", "Job", "Lease")
SPEND_GROUPS = ("day", "key", "model")
SERVICE_MAX = 2**32 - 1
BLOCK_MAX = 2**32 - 1
HISTORY_STATES = ("pending", "running", "completed", "failed", "cancelled")
UNIT_PRICE = 5_000_000
"""The default price in grains, per thousand tokens."""
