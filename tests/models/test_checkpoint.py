import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from gradicon.models import CheckpointError, Model, ModelConfig, build, load, read_header, save
from maps import blobs

CONFIG = ModelConfig(dimension=2, stage=2, resolutions=2, down_channels=(4, 8), up_channels=(4, 8))


@pytest.fixture
def model() -> Model:
    torch.manual_seed(3)
    model = build(CONFIG)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    model.train()(
        blobs((20, 20), 1), blobs((20, 20), 2)
    )  # running statistics that are not the initial ones
    return model.eval()


@pytest.fixture
def file(model: Model, tmp_path: Path) -> Path:
    save(model, tmp_path / "model.safetensors", provenance={"command": "train"})
    return tmp_path / "model.safetensors"


def rewritten(
    file: Path, *, drop: str = "", metadata: dict[str, str] | None = None, **extra: torch.Tensor
) -> Path:
    """The same file with tensors or header entries changed, and written again as if it
    were whole.
    """
    with safe_open(file, "pt") as opened:
        header = {**opened.metadata(), **(metadata or {})}
        state = {name: opened.get_tensor(name) for name in opened.keys() if name != drop}  # noqa: SIM118
    save_file({**state, **extra}, file, metadata=header)
    return file


def test_a_model_comes_back_bit_for_bit(model: Model, file: Path):
    back = load(file)
    assert back.config == model.config
    assert not back.training
    assert back.state_dict().keys() == model.state_dict().keys()
    assert all(
        torch.equal(back.state_dict()[name], value) for name, value in model.state_dict().items()
    )
    a = blobs((21, 23), 1)
    b = blobs((21, 23), 2)
    assert torch.equal(back(a, b).on_grid((21, 23)), model(a, b).on_grid((21, 23)))


@pytest.mark.parametrize(
    ("recipe", "augmented"),
    [
        ("[training]\naugment = true", True),
        ("[training]\nseed = 1", False),
        ("training = 3", False),
        ("by hand, see mail", False),
    ],
)
def test_what_is_noted_as_a_recipe_says_whether_images_were_moved(
    model: Model, tmp_path: Path, recipe: str, augmented: bool
):
    save(model, tmp_path / "m.safetensors", provenance={"recipe": recipe})
    assert read_header(tmp_path / "m.safetensors").augmented == augmented


def test_half_precision_halves_the_file_and_rounds_the_weights(
    model: Model, file: Path, tmp_path: Path
):
    save(model, tmp_path / "half.safetensors", half=True)
    assert (tmp_path / "half.safetensors").stat().st_size < 0.6 * file.stat().st_size
    back = load(tmp_path / "half.safetensors").state_dict()
    for name, value in model.state_dict().items():
        assert back[name].dtype == value.dtype
        torch.testing.assert_close(
            back[name], value.half().float() if value.ndim > 1 else value, rtol=0, atol=0
        )
    with torch.no_grad():
        next(value for value in model.parameters() if value.ndim > 1).fill_(1e5)
    with pytest.raises(ValueError, match="has values beyond 65504, the largest of half precision"):
        save(model, tmp_path / "large.safetensors", half=True)


def test_the_header_is_readable_by_anyone(file: Path):
    header = read_header(file)
    assert header.config == CONFIG
    assert header.provenance == {"command": "train"}
    raw = file.read_bytes()
    text = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])["__metadata__"]
    assert json.loads(text["config"])["down_channels"] == [4, 8]


@pytest.mark.parametrize("keep", [0.0, 0.001, 0.1, 0.5, 0.999])
def test_a_truncated_file_is_refused(file: Path, keep: float):
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * keep)])
    with pytest.raises(CheckpointError, match="model.safetensors: not a whole safetensors file"):
        load(file)


def test_a_single_flipped_bit_anywhere_is_refused(file: Path):
    whole = file.read_bytes()
    for position in range(0, len(whole), len(whole) // 97):
        altered = bytearray(whole)
        altered[position] ^= 1
        file.write_bytes(altered)
        with pytest.raises(CheckpointError, match="model.safetensors: ") as error:
            load(file)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"drop": "first.second.dense.last.bias"}, "do not match their hash"),
        ({"extra": torch.zeros(3)}, "do not match their hash"),
        ({"metadata": {"config": '{"dimension": 3}'}}, "do not match their hash"),
        ({"metadata": {"config": '{"dimensions": 3}'}}, "unknown name 'dimensions'"),
        ({"metadata": {"config": "not json"}}, "unreadable header"),
        ({"metadata": {"format": "other"}}, "not a gradicon checkpoint"),
    ],
)
def test_an_altered_file_is_refused(file: Path, change: dict, message: str):
    with pytest.raises(CheckpointError, match=message):
        load(rewritten(file, **change))


def test_a_pickle_is_refused_without_being_run(tmp_path: Path):
    torch.save({"weight": torch.zeros(3)}, tmp_path / "weights.pt")
    with pytest.raises(CheckpointError, match="not a whole safetensors file"):
        load(tmp_path / "weights.pt")


def test_a_missing_file_and_folder_are_named(model: Model, tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="nowhere.safetensors: no such checkpoint file"):
        load(tmp_path / "nowhere.safetensors")
    with pytest.raises(FileNotFoundError, match="the folder .*none does not exist"):
        save(model, tmp_path / "none" / "model.safetensors")


def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    file: Path, monkeypatch: pytest.MonkeyPatch
):
    before = file.read_bytes()

    def disk_full(state: object, path: Path, metadata: object) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gradicon.models.checkpoint.save_file", disk_full)
    with pytest.raises(OSError, match="No space left"):
        save(build(CONFIG), file)
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]
