"""The model that the network serves, and what it answers to the conformance requests.

Needs no NumPy, so that customers can name the service. Replaced as a whole when a better model
is published: its id is another, and so is the service.
"""

from hashlib import blake2b

WORKLOAD_ID = blake2b(b"ogpu/workload/textgen-int8/1", digest_size=32).digest()
MODEL_ID = "dddf0b9fdca0994e3ef9cb3e4af2097f1a85ae43122a353775d95a969b5b0266"
COMPLETIONS = "000789930881ff2b19f1f5abaad3304d416ce9628713f6ea3adbee5b0a8352fb"
