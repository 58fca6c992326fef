"""Customers on a devnet that use the command-line programs.

In reading order:

* `purchase`: posts prompts as units, and follows each
* `model_sale`: creates a model's service, and offers it
* `task_sale`: submits tasks to auction, and follows each
"""
