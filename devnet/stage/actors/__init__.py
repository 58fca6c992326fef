"""Customers on a devnet, who use the programs that people run.

In reading order:

* `purchase`: posts prompts as units, and follows each
* `task_sale`: submits tasks to auction, and follows each
"""
