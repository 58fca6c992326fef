"""Pictures of scenes by integer path tracing: tiles of several providers that fit together to the bit.

In reading order:

* `fixed_point`: units and their bounds, roots, unit vectors, sines, random numbers
* `scene`: a scene as values
* `scene_text`: a scene as text, with a strict parser
* `request`: requests and outputs as canonical SCALE bytes with limits, and the cost of a tile
* `reference`: one pixel in plain integers: the specification
* `array_arithmetic`: the operations of an array backend, and NumPy
* `vector_tracing`: many paths at once, in arrays
* `backends`: the backends by name
* `conformance`: fixed work with published hashes; a backend that differs in one must not serve
* `picture`: tiles to a picture, a picture to a file; the state of a run
* `service`: `render-tile` as a `Workload` and a `StepwiseWorkload`, and checks of drawn pixels
* `form`: `render-tile` as programs see it
"""
