"""One step of training, in integers: this file and `arithmetic.py` are the specification.

    inputs   the vectors of `context` bytes, side by side, and a constant 1      8 bits, units of 2**-5
    hidden   inputs times weights, once or twice: clamped to 0..127, and a 1     8 bits, units of 2**-5
    guesses  hidden times weights: a share for each byte by powers of e          units of 2**-15
    errors   shares less the true byte; backwards through the weights            units of 2**-15
    momentum = 7/8 of itself + the mean gradient of the windows                  units of 2**-24
    weights  = themselves - rate * momentum                                      units of 2**-24

Bounds, for the greatest request of `request.py` (rows R <= 513, batch B <= 512, windows' bytes B * context <= 2**13)
and any state that `state.py` accepts. Every value is below 2**63, every sum of products below 2**53:

    activations             |a| <= 127, shown by their clamp; vectors by the limit of weights: 127 * 2**19 >> 19
    weights as operands     |w| <= 127 * 2**7 = 16,256 < 2**14
    sums forward            R * 127 * 16,256 < 2**30
    powers, their totals    2**24; 256 * 2**24 = 2**32
    shares                  power << 15 <= 2**39, and half a total; a share is at most 2**15, so |error| <= 2**15
    errors behind a layer   256 columns * 2**19 * 2**14 = 2**41 before they are clamped to 2**19 - 1
    gradients of weights    B * 127 * 2**19 < 2**35; as means, << 4: 2**39
    gradients of vectors    2**13 * 2**19 = 2**32; as means, << 9: 2**41
    momentum                2**31 + 2**41 before it is clamped to 2**31 - 1
    rate * momentum         2**16 * 2**31 = 2**47
"""

from dataclasses import dataclass

import numpy as np

from gpu_tasks.workloads.train_int8.arithmetic import (
    POWER_ENTRIES,
    ExactArithmetic,
    Integers,
    Tensor,
    powers_of_e,
    round_shift,
)
from gpu_tasks.workloads.train_int8.request import RATE_ONE, SYMBOLS, TrainingRequest

ACTIVATION_MAX = 127
ACTIVATION_ONE = 32
ERROR_MAX = (1 << 19) - 1
MOMENTUM_MAX = (1 << 31) - 1
WEIGHT_LIMIT = 127 << 19
"""Just below 4, so that a vector is 8 bits after its shift, and an operand 14 bits and a sign after its own."""
_VECTOR_SHIFT = 19  # Weights in units of 2**-24 to vectors in units of 2**-5
_OPERAND_SHIFT = 12  # Weights to operands in units of 2**-12
_SUM_SHIFT = 12  # Sums in units of 2**-17 to activations in units of 2**-5; errors of 2**-27 back to 2**-15
_POWER_SHIFT = 9  # Sums in units of 2**-17 to entries of the table of powers, 2**-8 apart
_SHARE_BITS = 15
_FRICTION_SHIFT = 3
_MEAN_OF_WEIGHTS, _MEAN_OF_VECTORS = 4, 9  # Gradients in units of 2**-20 and 2**-15 to units of 2**-24
_RATE_SHIFT = RATE_ONE.bit_length() - 1


@dataclass
class MovingWeights:
    """Weights and momenta, matrix by matrix, in arrays of a backend. A step replaces them."""

    weights: list[Tensor]
    momenta: list[Tensor]


def as_multiplied(weights: list[Tensor]) -> list[Tensor]:
    """Return the weights for products: vectors of 8 bits in units of 2**-5, the others as operands."""
    return [round_shift(weight, _OPERAND_SHIFT if index else _VECTOR_SHIFT) for index, weight in enumerate(weights)]


class NextByteModel:
    """The forward pass and the step of one request on one backend."""

    def __init__(self, backend: ExactArithmetic, request: TrainingRequest) -> None:
        """Put the tables into arrays of the backend."""
        self._backend, self._request = backend, request
        self._powers = backend.put(powers_of_e())
        self._marks = backend.put(np.eye(SYMBOLS, dtype=np.int64))

    def step(self, parameters: MovingWeights, windows: Integers, step_number: int) -> list[Tensor]:
        """Train on int64[batch, context + 1] of text, as step `step_number` of the run.

        Return the mean gradient of each matrix, in units of 2**-24.
        """
        backend, request = self._backend, self._request
        symbols = backend.put(windows)
        operands = self._operands(parameters.weights)
        layers, logits = self._forward(parameters.weights[0], operands, symbols[:, :-1])
        gradients, errors = self._backward(layers, operands, self._output_errors(logits, symbols[:, -1]))
        of_vectors = backend.sums_by_place(errors.reshape(-1, request.width), symbols[:, :-1].reshape(-1), SYMBOLS)
        # Evenly down to nothing, by the step's number alone: a successor that goes on from a state needs no other
        # memory.
        rate = request.rate * (request.steps - step_number) // request.steps
        means = []
        for index, gradient in enumerate([of_vectors, *gradients]):
            # The mean over the windows is a shift, because a batch is a power of two.
            scaled = gradient << (_MEAN_OF_WEIGHTS if index else _MEAN_OF_VECTORS)
            means.append(round_shift(scaled, request.batch.bit_length() - 1))
            self._change_weights(parameters, index, means[index], rate)
        return means

    def logits(self, weights: list[Tensor], windows: Integers) -> Tensor:
        """Return int64[n, 256] in units of 2**-17 for int64[n, context + 1] of text, whose last bytes are not used."""
        return self._forward(weights[0], self._operands(weights), self._backend.put(windows)[:, :-1])[1]

    def powers(self, logits: Tensor) -> Tensor:
        """Return int64[n, 256]: e to each logit less the greatest of its row, in units of 2**-24."""
        # Less the greatest, so that a power is at most 1 and the table needs no entry for more.
        below = self._backend.peak(logits) - logits
        return self._powers[self._backend.clamp(round_shift(below, _POWER_SHIFT), 0, POWER_ENTRIES - 1)]

    def _operands(self, weights: list[Tensor]) -> list[Tensor]:
        """Return each layer's weights as operands."""
        return [self._backend.operand(rounded) for rounded in as_multiplied(weights)[1:]]

    def _forward(self, vectors: Tensor, operands: list[Tensor], text: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return each layer's input with its constant, and the sums of the last layer."""
        backend = self._backend
        values = as_multiplied([vectors])[0][text].reshape(len(text), -1)
        layers = [backend.beside(values, ACTIVATION_ONE)]
        for operand in operands[:-1]:
            sums = backend.product(backend.operand(layers[-1]), operand)
            values = backend.clamp(round_shift(sums, _SUM_SHIFT), 0, ACTIVATION_MAX)
            layers.append(backend.beside(values, ACTIVATION_ONE))
        return layers, backend.product(backend.operand(layers[-1]), operands[-1])

    def _output_errors(self, logits: Tensor, next_symbols: Tensor) -> Tensor:
        """Return the gradient of the cross entropy: shares less the true byte."""
        powers = self.powers(logits)
        totals = self._backend.total(powers)
        # Halves up, as every rounding here: a cut would bias all gradients one way.
        shares = ((powers << _SHARE_BITS) + (totals >> 1)) // totals
        return shares - (self._marks[next_symbols] << _SHARE_BITS)

    def _backward(self, layers: list[Tensor], operands: list[Tensor], errors: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the gradients of the layers' weights, summed over the windows, and the errors of the inputs."""
        backend, gradients = self._backend, list[Tensor]()
        for index in reversed(range(len(layers))):
            error_operands = backend.operand(errors)
            gradients.insert(0, backend.product(backend.operand(layers[index]).T, error_operands))
            # Without the last column: the constant has no layer below it.
            sums = backend.product(error_operands, operands[index].T)[:, :-1]
            errors = backend.clamp(round_shift(sums, _SUM_SHIFT), -ERROR_MAX, ERROR_MAX)
            if index > 0:  # A clamped value has no gradient
                values = layers[index][:, :-1]
                errors = errors * ((values > 0) & (values < ACTIVATION_MAX))
        return gradients, errors

    def _change_weights(self, parameters: MovingWeights, index: int, mean: Tensor, rate: int) -> None:
        """Update the momentum, and move the weights along it."""
        backend, momentum = self._backend, parameters.momenta[index]
        # The clamp keeps every later sum below 2**53, whatever the request and the state.
        momentum = backend.clamp(momentum - round_shift(momentum, _FRICTION_SHIFT) + mean, -MOMENTUM_MAX, MOMENTUM_MAX)
        moved = parameters.weights[index] - round_shift(momentum * rate, _RATE_SHIFT)
        parameters.momenta[index] = momentum
        parameters.weights[index] = backend.clamp(moved, -WEIGHT_LIMIT, WEIGHT_LIMIT)
