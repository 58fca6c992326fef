"""What a provider's daemon must not forget, on disk before it acts.

In reading order:

* `task_records`: what is written down about tasks
* `records`: what is written down, and about races and cases
* `journal`: the file that survives a power cut
"""
