"""Customers on a devnet that use the command-line programs or their parts.

In reading order:

* `purchase`: posts prompts as units, and follows each
* `model_sale`: creates a model's service, and offers it
* `place_sale`: creates services with sessions, and offers places
* `session_customer`: opens sessions, and sends messages of any kind
* `task_sale`: submits tasks to auction, and follows each
"""
