"""The model that the network serves, and what it answers to the conformance requests.

Needs no NumPy, so that customers can name the service. Replaced as a whole when a better model
is published: its id is another, and so is the service.
"""

from hashlib import blake2b

WORKLOAD_ID = blake2b(b"ogpu/workload/textgen-int8/1", digest_size=32).digest()
MODEL_ID = "3979d4b9650bfc9a79d5cb3773c0df2beb2197ed7d559401b92b0d8aa33d975d"
COMPLETIONS = "aba47629098bc183ff0bcfd9ec6f26063cd0848f4387862e613e1637ebc96ff5"
