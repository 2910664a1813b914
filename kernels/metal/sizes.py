"""Sizes of threadgroups: what the kernels are generated with, and the carrier computes its grids from."""

THREADS = 256  # of a kernel that has one thread for each element or row
ROW_THREADS = 128  # that share one row of a reduction; a power of two
SHORT_ROW = 32  # elements: a shorter row has one thread
TILE = 16  # rows and columns of a product of matrices that one threadgroup computes, a thread for each element
