"""`decoder-int8`: language models of the Llama family, the same bits on every machine.

In reading order:

* `config`: the sizes of a model, and their limits
* `request`: the ids, requests and answers as canonical SCALE bytes
* `effort`: the work and memory of requests, by their lengths
* `model`: the integer arrays of a model, in file order, and the checks of their values
* `transformer`: token ids to logits: one forward pass for every backend
* `sampling`: logits to tokens: temperature, top-p, the draw, log-probabilities
* `decoding`: requests to answers, side by side; the check of an answer by one prefill
* `live_lanes`: requests that begin and end at any time, with their tokens as they are drawn
* `conformance`: a built-in model with a published hash; a backend with another hash must not serve
* `quantising`: float models to integer models
* `float_decoder`: the float model as its author meant it, for comparison
* `quality`: the cost of quantisation on a text
* `service`: `decoder-int8` as a `Workload`
* `form`: `decoder-int8` as programs see it: a question in, an answer out
"""
