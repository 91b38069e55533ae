"""gpulsh on a CUDA device: cases measured against the device's own limits, `python -m benchmarks.gpu`."""
