"""Pictures of scenes by paths of light, in integers: tiles of several providers that fit together to the bit.

In reading order:

* `fixed_point`: units and their bounds, roots, unit vectors, sines, chance
* `scene`: a scene as values
* `scene_text`: a scene as people write it, read strictly
* `request`: what is asked and answered, as canonical SCALE bytes with limits, and what a tile costs
* `reference`: one pixel in plain integers: the specification
* `array_arithmetic`: what a backend of arrays supplies, and NumPy
* `vector_tracing`: many paths at once, in arrays
* `backends`: which backends there are
* `conformance`: fixed work whose hashes are published; a backend that misses one must not serve
* `picture`: tiles to a picture, and that to a file; the state of a run
* `service`: `render-tile` as a `Workload` and a `StepwiseWorkload`, and checks of drawn pixels
* `form`: `render-tile` as programs see it
"""
