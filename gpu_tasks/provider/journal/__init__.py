"""What a provider's daemon must not forget, on disk before it acts.

In reading order:

* `task_records`: what is written down about tasks
* `records`: what is written down, and about races and cases
* `frames`: records one behind the other in a file that is only appended to
* `finished`: the requests of a batch that are done
* `journal`: the file that survives a power cut
* `pause_book`: causes of devices' pauses
"""
