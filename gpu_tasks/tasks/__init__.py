"""Customers' requests: task files, their terms on a chain, and the devices that could serve them.

All of it is pure: texts and records in, records and texts out. In reading order:

* `problems`: a problem with a user's text, and its remedy
* `yaml_tree`: from the bytes of a YAML file to a tree of texts with their lines, within limits
* `quantities`: amounts, times and rates as people write them, to integers
* `declarations`: sections of a file as pydantic models: parsed strictly, exported as JSON Schema
* `file_words`: the words that task files of every kind share
* `training_task`: the keys of a training task
* `container_request`: a customer's request for a container
* `canonical`: request, canonical bytes, hash and terms of a task
* `order`: the order that is submitted
* `container_task`: the keys of a job and of a lease
* `container_order`: their request, intervals and order
* `task_kinds`: the kind of a file, the common form of all kinds, and their JSON Schemas
* `offers`: the offers of a chain, in rows
* `offer_query`: a query over offers
* `bid_explanation`: the reason why each bid of an auction won or lost
* `task_check`: a task computed again from the records of a chain
* `replica_check`: the same for replicas: the draws, and the majority's result
* `task_statements`: whether the blocks contain the statements that a task's record names
* `plan`: the devices that could serve a task, the obstacles of the others, cost and start
"""
