"""The layers hold, and the public names stay."""

import ast
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import gradicon

SOURCE = Path(gradicon.__file__).parent
FOREIGN = {
    "torch",
    "numpy",
    "SimpleITK",
    "scipy",
    "safetensors",
    "jaxtyping",
    "rich",
    "typer",
    "matplotlib",
    "lightning_fabric",
    "tensorboard",
}
LAYERS = {
    "core": {"core"},
    "fast": {"fast", "core"},
    "models": {"models", "core"},
    "physical": {"physical", "core"},
    "registration": {"registration", "models", "physical", "core"},
    "cohort": {"cohort", "registration", "models", "physical", "core"},
    "evaluation": {"evaluation", "cohort", "registration", "models", "physical", "core"},
    "training": {"training", "models", "core"},
    "experiments": {
        "experiments",
        "training",
        "evaluation",
        "registration",
        "models",
        "physical",
        "core",
    },
    "cli": {
        "cli",
        "cohort",
        "registration",
        "training",
        "evaluation",
        "experiments",
        "models",
        "physical",
        "core",
    },
}
FOR_ALL = {f"gradicon.{name}" for name in ("devices", "ending", "errors", "files", "threads")}
EXTRA = {
    "physical/preprocess.py": {"models.header"},  # which says how
    "training/scans.py": {"physical"},  # it reads scans
    "training/prepare.py": {"physical.lists"},  # and lists of them
    "training/graphs.py": {"fast.capture"},  # imported where fast code is wanted
    "core/acceleration.py": {"fast"},  # the one switch
    "experiments/workload.py": {"fast.capture"},  # which is what it times
}
PUBLIC = [
    "Affine",
    "Composition",
    "DisplacementField",
    "ModelConfig",
    "Options",
    "Transform",
    "bending_energy",
    "build",
    "diffusion",
    "fold_percentage",
    "gradient_inconsistency",
    "identity",
    "inconsistency",
    "jacobian_determinant",
    "lncc",
    "mind_ssc",
    "mse",
    "mutual_information",
    "ncc",
    "objective",
    "register",
    "sd_log_jacobian",
    "squared_lncc",
    "unit_grid",
    "warp",
]


def imports(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def files(part: str) -> list[Path]:
    return sorted((SOURCE / part).glob("**/*.py"))


def test_every_part_has_its_rule():
    assert {
        path.name for path in SOURCE.iterdir() if path.is_dir() and any(path.glob("*.py"))
    } == set(LAYERS)


def test_each_layer_imports_only_what_it_may():
    for part, allowed in LAYERS.items():
        for file in files(part):
            here = allowed | EXTRA.get(file.relative_to(SOURCE).as_posix(), set())
            for name in imports(file):
                if name.startswith("gradicon.") and not (
                    name in FOR_ALL
                    or any(f"{name}.".startswith(f"gradicon.{layer}.") for layer in here)
                ):
                    raise AssertionError(
                        f"{file.relative_to(SOURCE)} imports {name}, but {part} may "
                        f"import only {sorted(allowed)}"
                    )


def test_core_imports_torch_and_jaxtyping_only():
    allowed = {"torch", "jaxtyping", "gradicon"} | set(sys.stdlib_module_names)
    for file in files("core"):
        assert {name.split(".")[0] for name in imports(file)} <= allowed, file


def test_the_core_knows_no_gpu_and_imports_fast_code_only_when_it_asks_for_it():
    for file in files("core"):
        text = file.read_text(encoding="utf-8")
        assert "torch.cuda" not in text, file
        assert "is_cuda" not in text, file
        for node in ast.parse(text).body:
            assert not (isinstance(node, ast.ImportFrom) and "fast" in str(node.module)), file


def test_simpleitk_appears_in_two_files():
    users = {
        str(file.relative_to(SOURCE))
        for file in SOURCE.rglob("*.py")
        if "SimpleITK" in imports(file)
    }
    assert users == {"physical/images.py", "physical/transforms.py"}


def test_training_needs_no_command_line():
    for file in files("training"):
        assert not {name.split(".")[0] for name in imports(file)} & {
            "typer",
            "rich",
            "SimpleITK",
            "matplotlib",
        }, file


def test_files_and_functions_stay_small():
    for file in SOURCE.rglob("*.py"):
        assert file.read_text(encoding="utf-8").count("\n") <= 250, file
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                assert not body or body[-1].end_lineno - body[0].lineno < 40, f"{file}: {node.name}"  # type: ignore[operator]


def test_the_public_names():
    assert sorted(gradicon.__all__) == sorted(PUBLIC)
    assert len(PUBLIC) <= 25
    for name in PUBLIC:
        exec(f"from gradicon import {name}", {})


def test_importing_the_package_needs_no_file_readers():
    """Machines that train may have no SimpleITK."""
    check = (
        "import gradicon, gradicon.core.objective, gradicon.models, sys; assert 'SimpleITK' "
        "not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


def test_training_from_prepared_data_needs_no_file_readers():
    """`python -m gradicon.training` runs where neither SimpleITK nor the command line's packages
    are installed.
    """
    check = (
        "import gradicon.training.__main__, gradicon.training.command, gradicon.training.trainer, "
        "sys; assert not {'SimpleITK', 'typer', 'rich'} & "
        "set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


def test_studies_need_no_file_readers():
    """`python -m gradicon.experiments` runs on the machines that train."""
    names = ", ".join(f"gradicon.experiments.{path.stem}" for path in files("experiments"))
    check = (
        f"import {names.replace('.__init__', '')}, sys; assert not "
        f"{{'SimpleITK', 'typer', 'rich', 'scipy'}} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


def test_the_other_commands_need_nothing_of_training():
    """Lightning Fabric is an extra."""
    check = (
        "import gradicon.cli.register, gradicon.cli.experiment, gradicon.cli.train, sys; "
        "assert 'lightning_fabric' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


STEERED = ("solve", "register.py", "decide.py", "grids.py", "plan.py", "pair.py")
PLAIN = {0, 1, 2}  # counting, halving, the first and the last
NAMED = {("inverse.py", 95), ("inverse.py", 100), ("decide.py", 3)}  # a percentile; volumes


def test_no_number_that_steers_a_result_stands_outside_the_presets():
    """Solvers and planning have no number of taste: each has its place and its reason there."""
    for part in STEERED:
        path = SOURCE / "registration" / part
        for file in sorted(path.glob("*.py")) if path.is_dir() else [path]:
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and type(node.value) in (int, float):
                    known = node.value in PLAIN or (file.name, node.value) in NAMED
                    assert known, f"{file.name}:{node.lineno} has the number {node.value}"


def test_every_preset_says_what_it_is_for():
    """A text stands below each number."""
    tree = ast.parse((SOURCE / "registration/presets.py").read_text(encoding="utf-8"))
    for group in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for this, after in pairwise(group.body):
            if isinstance(this, ast.AnnAssign) and group.name != "Presets":
                told = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                assert told, f"{group.name}: line {this.lineno} has no reason"
