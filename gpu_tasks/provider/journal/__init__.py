"""The records that a provider's daemon writes to disk before it acts.

In reading order:

* `task_records`: records about tasks
* `records`: records about races and cases
* `table`: entries by key, written field by field
* `schema`: the file that survives a power cut
* `journal`: all entries, and steps of several records
* `finished`: the finished requests of a batch
* `pause_book`: causes of devices' pauses
"""
