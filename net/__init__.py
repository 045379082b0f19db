"""The network: architectures, weights files, packed features to planes, and inference on CPU and CUDA."""
