"""`embed-int8`: texts to vectors by encoders of the BERT class, the same bits on every machine.

In reading order:

* `config`: the sizes of a model, and their limits
* `request`: the ids, requests and answers as canonical SCALE bytes
* `model`: the integer arrays of a model, in file order, and the checks of their values
* `transformer`: token ids to vectors: one forward pass for every backend
* `batching`: many texts at once
* `quantising`: float models to integer models
* `conformance`: fixed work with a published hash; a backend with another hash must not serve
* `service`: `embed-int8` as a `Workload`
* `form`: `embed-int8` as programs see it: a text, an answer as numbers
"""
