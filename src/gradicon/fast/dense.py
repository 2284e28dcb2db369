"""Which fast code takes a dense network, if any."""

import torch
from torch import Tensor

from gradicon.core.dense import DenseNetwork
from gradicon.core.unet import UNet
from gradicon.fast.availability import kernels_apply
from gradicon.fast.unet import channels_last_pays, laid_out, rearranged_unet


def dense(net: DenseNetwork, images: Tensor) -> Tensor | None:
    """u: `DenseNetwork.displacements`, in half precision where that was asked for."""
    if net.half_precision and images.is_cuda:
        return _in_half_precision(net, images)
    if isinstance(net, UNet) and (channels_last_pays(images) or _is_2d_on_gpu(images)):
        return rearranged_unet(net, images)
    return net.displacements(laid_out(images)) if channels_last_pays(images) else None


def _in_half_precision(net: DenseNetwork, images: Tensor) -> Tensor:
    if isinstance(net, UNet) and kernels_apply(images):
        from gradicon.fast.fused.unet import can_be_fused, fused_forward  # here: needs Triton

        if can_be_fused(net):
            return fused_forward(net, images)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        return rearranged_unet(net, images) if isinstance(net, UNet) else net.displacements(images)


def _is_2d_on_gpu(images: Tensor) -> bool:
    return images.is_cuda and images.ndim == 4
