"""What a provider's daemon must not forget, on disk before it acts.

In reading order:

* `task_records`: what is written down about tasks
* `records`: what is written down about races and cases
* `table`: entries by key, whose fields are written one by one
* `journal`: the file that survives a power cut
* `finished`: the requests of a batch that are done
* `pause_book`: causes of devices' pauses
"""
