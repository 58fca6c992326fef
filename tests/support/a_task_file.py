"""The shortest file of a training task."""

SIX_LINES = """\
apiVersion: ogpu/v1
kind: TrainingTask
metadata: {name: haiku}
spec:
  run: {input: corpus.txt}
  market: {maxPrice: 2.5 oGPU}
"""
