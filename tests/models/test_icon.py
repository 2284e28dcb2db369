import os
from pathlib import Path

import pytest
import torch
from torch import Tensor

from golden.reference import CASES, load_case
from gradicon.models import CheckpointError, ModelConfig, from_icon, load, read_icon, save


@pytest.fixture
def state() -> dict[str, Tensor]:
    return dict(load_case("stage2_2d").state_dict)


@pytest.mark.parametrize("name", CASES)
def test_stage_and_dimension_are_read_off_the_state_dict(name: str):
    case = load_case(name)
    model = from_icon(case.state_dict)
    assert model.config == ModelConfig(dimension=case.dimension, stage=case.stage)
    assert not model.training


def test_other_channel_counts_are_read_off_too():
    def unet(prefix: str) -> dict[str, Tensor]:
        shapes = {
            "downConvs.0.weight": (5, 4, 3, 3),
            "downConvs.0.bias": (5,),
            "downConvs.1.weight": (7, 5, 3, 3),
            "downConvs.1.bias": (7,),
            "upConvs.0.weight": (5 + 6, 3, 4, 4),
            "upConvs.0.bias": (3,),
            "upConvs.1.weight": (7, 6, 4, 4),
            "upConvs.1.bias": (6,),
            "lastConv.weight": (2, 3 + 4, 3, 3),
            "lastConv.bias": (2,),
        }
        norms = {
            f"batchNorms.{i}.{key}": (n,)
            for i, n in enumerate((3, 6))
            for key in ("weight", "bias", "running_mean", "running_var")
        }
        tensors = {prefix + key: torch.rand(shape) for key, shape in {**shapes, **norms}.items()}
        return {
            **tensors,
            **{f"{prefix}batchNorms.{i}.num_batches_tracked": torch.tensor(0) for i in range(2)},
        }

    model = from_icon({**unet("netPhi.net.net."), **unet("netPsi.net.")})
    want = ModelConfig(
        dimension=2,
        stage=1,
        resolutions=2,
        image_channels=2,
        down_channels=(5, 7),
        up_channels=(3, 6),
    )
    assert model.config == want
    assert from_icon(unet("net.")).config.resolutions == 1


def test_wrappers_and_cached_grids_are_dropped(state: dict[str, Tensor]):
    plain = from_icon(state).state_dict()
    wrapped = {f"regis_net.{name}": value for name, value in state.items()}
    wrapped["regis_net.identity_map"] = wrapped["regis_net.netPhi.identity_map"] = torch.zeros(
        1, 2, 4, 4
    )
    found = from_icon(wrapped).state_dict()
    assert all(torch.equal(found[name], value) for name, value in plain.items())


def test_the_whole_way_from_a_file_of_the_reference_to_a_checkpoint(
    state: dict[str, Tensor], tmp_path: Path
):
    torch.save(state, tmp_path / "network.trch")
    model = from_icon(read_icon(tmp_path / "network.trch"))
    save(model, tmp_path / "model.safetensors")
    back = load(tmp_path / "model.safetensors").state_dict()
    assert all(torch.equal(back[name], value) for name, value in model.state_dict().items())


def without(state: dict[str, Tensor], part: str) -> dict[str, Tensor]:
    return {name: value for name, value in state.items() if part not in name}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: without(s, "netPsi.net.lastConv.bias"), "missing tensor.*last.bias"),
        (
            lambda s: {**s, "netPsi.net.downConvs.7.weight": torch.zeros(1)},
            r"missing tensor\(s\) of 'down'",
        ),
        (
            lambda s: {**s, "netPsi.net.batchNorms.9.weight": torch.zeros(1)},
            "1 unexpected tensor.*norm.9.weight",
        ),
        (lambda s: {**s, "optimizer.step": torch.zeros(1)}, "unexpected name 'optimizer.step'"),
        (lambda s: without(s, "netPhi.netPsi"), "not a Stage1, Stage2 or ICON"),
        (
            lambda s: {**s, "netPsi.net.lastConv.bias": torch.zeros(3)},
            r"'second.dense.last.bias' is \(3,\) torch.float32, expected \(2,\)",
        ),
        (
            lambda s: {**s, "netPsi.net.lastConv.bias": torch.zeros(2).half()},
            r"\(2,\) torch.float16, expected \(2,\) torch.float32",
        ),
        (
            lambda s: {**s, "netPsi.net.lastConv.bias": torch.full((2,), torch.nan)},
            "last.bias' has NaN",
        ),
        (lambda s: {}, "empty"),
    ],
)
def test_bad_state_dicts(state: dict[str, Tensor], change: object, message: str):
    with pytest.raises(CheckpointError, match=message) as error:
        from_icon(change(state))  # type: ignore[operator]
    assert "\n" not in str(error.value)


class Malicious:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch owned",)


def test_a_file_that_would_run_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"weight": Malicious()}, "evil.trch")
    with pytest.raises(
        CheckpointError, match="evil.trch: not a file of weights that torch can read safely"
    ) as error:
        read_icon("evil.trch")
    assert "\n" not in str(error.value)
    assert not Path("owned").exists()


@pytest.mark.parametrize("content", [b"", b"not a torch file", b"PK\x03\x04 truncated"])
def test_files_that_are_not_weights(tmp_path: Path, content: bytes):
    (tmp_path / "file.trch").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"file.trch: not a file of weights"):
        read_icon(tmp_path / "file.trch")


def test_a_file_of_something_else(tmp_path: Path):
    torch.save([torch.zeros(2)], tmp_path / "list.trch")
    with pytest.raises(
        CheckpointError, match="list.trch: expected a state dict, names to tensors, got a list"
    ):
        read_icon(tmp_path / "list.trch")
    with pytest.raises(FileNotFoundError, match="none.trch: no such file"):
        read_icon(tmp_path / "none.trch")
