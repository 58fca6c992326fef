"""What customers ask for: task files, what they come to on a chain, who could serve them.

All of it is pure: texts and records in, records and texts out. In reading order:

* `problems`: what is wrong with something that a person wrote, and what to do
* `yaml_tree`: from the bytes of a YAML file to a tree of texts with their lines, within limits
* `quantities`: amounts, times and rates as people write them, to integers
* `declarations`: sections of a file as pydantic models: read strictly, shown as JSON Schema
* `file_words`: the words that task files of every kind share
* `training_task`: the keys of a training task
* `container_request`: what a customer asks of a container
* `canonical`: request, canonical bytes, hash and terms of a task
* `order`: what is submitted
* `container_task`: the keys of a job and of a lease
* `container_order`: their request, intervals and order
* `task_kinds`: which kind a file is of, what all of them come to, and their JSON Schemas
* `offers`: what is on offer, in rows
* `offer_query`: which of them are asked for
* `bid_explanation`: why each bid of an auction won or lost
* `task_check`: a task reckoned again out of the records of a chain
* `replica_check`: the same of replicas: who was drawn, what most of them found
* `task_statements`: whether what its record says was stated stands in the blocks
* `plan`: who could serve a task, why the others cannot, cost and start
"""
