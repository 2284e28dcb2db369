"""Triton kernels for 3-D on a GPU: the paper's U-Net in half precision, and reading at points."""
