"""What a provider's daemon must not forget, on disk before it acts.

In reading order:

* `records`: what is written down
* `journal`: the file that survives a power cut
"""
