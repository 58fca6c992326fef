"""The model that the network serves, and what it answers to the conformance requests.

Needs no NumPy, so that customers can name the service. Replaced as a whole when a better model
is published: its id is another, and so is the service.
"""

from hashlib import blake2b

WORKLOAD_ID = blake2b(b"ogpu/workload/textgen-int8/1", digest_size=32).digest()
MODEL_ID = "9a4aa3ca24c16979964acf53d58c2f80d8f6e8b3c42fdd0a29023af2d0a8b6e1"
COMPLETIONS = "ed19aa04eedf384f20fbbf06cdce97170db4c2e4cc06bc38cd0fe14b82dbd567"
