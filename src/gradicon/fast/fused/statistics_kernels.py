"""Triton kernels that finish BatchNorm's statistics and gradients from sums: one program, one value
per channel.
"""

import triton
import triton.language as tl


@triton.jit
def finish_statistics(
    total, gamma, beta, running_mean, running_var, batches, found, count, eps, momentum,
    C: tl.constexpr, TRAINING: tl.constexpr,
):  # fmt: skip
    """Mean, 1 / standard deviation, scale and shift, from two sums or from what BatchNorm
    remembers; and what it will remember.
    """
    c = tl.arange(0, C)
    mean = tl.load(running_mean + c)
    variance = tl.load(running_var + c)
    if TRAINING:
        exact = tl.load(total + c) / count
        fresh = tl.maximum(tl.load(total + C + c) / count - exact * exact, 0.0).to(tl.float32)
        tl.store(running_mean + c, mean + momentum * (exact.to(tl.float32) - mean))
        tl.store(running_var + c, variance + momentum * (fresh * (count / (count - 1)) - variance))
        tl.store(batches, tl.load(batches) + 1)
        mean = exact.to(tl.float32)
        variance = fresh
    rstd = 1 / tl.sqrt(variance + eps)
    scale = tl.load(gamma + c) * rstd
    tl.store(found + c, mean)
    tl.store(found + C + c, rstd)
    tl.store(found + 2 * C + c, scale)
    tl.store(found + 3 * C + c, tl.load(beta + c) - mean * scale)


@triton.jit
def finish_gradients(
    own, total, gamma, rstd, found, count, C: tl.constexpr, TRAINING: tl.constexpr
):
    """Of gamma, beta and a bias before BatchNorm, then gain, m1 and m2 of `normalise_backward`."""
    c = tl.arange(0, C)
    beta = tl.load(own + c).to(tl.float32)
    gain = tl.load(gamma + c) * tl.load(rstd + c)
    tl.store(found + c, tl.load(own + C + c).to(tl.float32))
    tl.store(found + C + c, beta)
    tl.store(found + 3 * C + c, gain)
    if TRAINING:  # a bias before BatchNorm changes nothing
        tl.store(found + 2 * C + c, beta * 0)
        tl.store(found + 4 * C + c, (tl.load(total + c) / count).to(tl.float32))
        tl.store(found + 5 * C + c, (tl.load(total + C + c) / count).to(tl.float32))
    else:
        tl.store(found + 2 * C + c, beta * gain)
        tl.store(found + 4 * C + c, beta * 0)
        tl.store(found + 5 * C + c, beta * 0)
