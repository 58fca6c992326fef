"""Customers on a devnet that use the command-line programs.

In reading order:

* `purchase`: posts prompts as units, and follows each
* `task_sale`: submits tasks to auction, and follows each
"""
