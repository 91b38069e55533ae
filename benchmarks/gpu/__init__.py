"""What a CUDA device does with gpulsh: cases measured beside the device's own limits, `python -m benchmarks.gpu`."""
