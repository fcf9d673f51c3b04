"""The step in few launches: the arithmetic of `model/` again, in Triton kernels, for NVIDIA GPUs.

In: the weights that `model/` has loaded. Out: the same results from fewer, larger kernels.
Must not know: sessions, the web, who calls. Where Triton is missing, whoever builds a fast part is told so and falls
back.
"""
