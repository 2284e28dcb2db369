import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from gradicon.models import (
    CheckpointError,
    Model,
    ModelConfig,
    Preprocessing,
    Training,
    build,
    load,
    read_header,
    save,
)
from gradicon.models.checkpoint import hash_texts
from gradicon.models.earlier import convert_earlier
from maps import blobs

PREPROCESSING = Preprocessing(shape=(20, 20), modality="ct", window=(-500.0, 100.0))
TRAINING = Training(recipe="[data]", dataset="ab", command="train", version="1", score=0.5)
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
    save(
        model,
        tmp_path / "model.safetensors",
        preprocessing=PREPROCESSING,
        training=TRAINING,
        notes={"by": "hand"},
    )
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


def _changed(section: str, **values: object) -> dict[str, str]:
    """A section of the header as JSON, with fields changed, or left out where None is given."""
    fields = asdict(PREPROCESSING if section == "preprocessing" else TRAINING) | values
    return {section: json.dumps({name: v for name, v in fields.items() if v is not ...})}


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        ("preprocessing", {"crop": ...}, r"\[preprocessing\] crop is missing"),
        ("preprocessing", {"crop": "cut"}, r"\[preprocessing\] crop must be one of fit, center"),
        ("preprocessing", {"cropped": 1}, r"\[preprocessing\] unknown name 'cropped'"),
        ("preprocessing", {"shape": [4, 4]}, "shape must be 2 or 3 whole numbers of at least 8"),
        ("preprocessing", {"shape": 20}, r"\[preprocessing\] shape must be a list"),
        ("preprocessing", {"window": [5, -5]}, "window must go up"),
        ("preprocessing", {"window": [5]}, "window must be a list of 2"),
        ("preprocessing", {"percentiles": [1, 101]}, "percentiles must go up within 0 and 100"),
        ("preprocessing", {"spacing_mm": [1, 1]}, "spacing_mm is for crop"),
        ("preprocessing", {"augmented": "no"}, "augmented must be true or false"),
        ("preprocessing", {"order": "mask"}, "order must be one of"),
        ("training", {"recipe": ...}, r"\[training\] recipe is missing"),
        ("training", {"steps": "many"}, r"\[training\] steps must be a whole number"),
        ("training", {"score": "good"}, r"\[training\] score must be a number"),
    ],
)
def test_a_field_of_the_header_that_is_wrong_is_named(
    file: Path, section: str, values: dict[str, object], message: str
):
    with pytest.raises(CheckpointError, match=f"model.safetensors: unreadable header: .*{message}"):
        read_header(rewritten(file, metadata=_changed(section, **values)))


def test_a_header_may_say_nothing_of_preprocessing_and_training(model: Model, tmp_path: Path):
    save(model, tmp_path / "m.safetensors")
    header = read_header(tmp_path / "m.safetensors")
    assert header.preprocessing is None
    assert header.training is None


def test_an_earlier_file_is_refused_and_converted(model: Model, file: Path, tmp_path: Path):
    """The format before this one, written here as it was."""
    config = json.dumps(model.config.to_dict())
    data = {"crop": "fit", "shape": [20, 20], "spacing_mm": [], "modality": "mr"}
    provenance = {
        "data": json.dumps(data | {"mask_outside": False}),
        "recipe": "[training]\naugment = true\n",
        "command": "train it",
        "steps": "7",
        "who": "me",
    }
    metadata = {"format": "gradicon-1", "config": config, "provenance": json.dumps(provenance)}
    state = {name: t.contiguous() for name, t in model.net.state_dict().items()}
    metadata["sha256"] = hash_texts([metadata[k] for k in metadata], state)
    save_file(state, tmp_path / "old.safetensors", metadata=metadata)
    with pytest.raises(CheckpointError, match=r"earlier version: convert it with `gradicon import"):
        read_header(tmp_path / "old.safetensors")
    convert_earlier(tmp_path / "old.safetensors", tmp_path / "new.safetensors")
    header = read_header(tmp_path / "new.safetensors")
    assert header.preprocessing == Preprocessing(
        shape=(20, 20), modality="mr", mask_outside=False, augmented=True
    )
    assert header.training is not None
    assert (header.training.command, header.training.steps) == ("train it", 7)
    assert header.notes == {"who": "me"}
    converted = load(tmp_path / "new.safetensors").state_dict()
    assert all(torch.equal(converted[k], v) for k, v in model.state_dict().items())
    with pytest.raises(CheckpointError, match="nothing to convert"):
        convert_earlier(file, tmp_path / "again.safetensors")


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
    assert header.preprocessing == PREPROCESSING
    assert header.training == TRAINING
    assert header.notes == {"by": "hand"}
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
    with pytest.raises(OSError, match="the folder .*none does not exist"):
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
