"""scripts/check-cuda finds an operation of the CUDA back end that one of the checks leaves out."""

import shutil
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def operations():
    module = ModuleType("check_cuda")
    module.__file__ = str(ROOT / "scripts" / "check-cuda")
    exec(SourceFileLoader("check_cuda", module.__file__).get_code("check_cuda"), module.__dict__)
    return module


@pytest.fixture
def tree(tmp_path):
    """A copy of the sources that it reads, to plant faults in."""
    sources = [*ROOT.glob("kernels/ops/*/cuda*.cu"), *ROOT.glob("tests/conformance/*.c"), ROOT / "tests" / "CMakeLists.txt",
               ROOT / "tests" / "gpu.sh", ROOT / "tests" / "bench" / "gpu_kernels.c"]
    for source in sources:
        target = tmp_path / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    return tmp_path


def test_this_tree_leaves_nothing_out(operations, tree):
    assert list(operations.missing(tree)) == []


@pytest.mark.parametrize("name, old, new, found", [
    ("tests/CMakeLists.txt", "bonus_matches_oracle", "", ["tests/CMakeLists.txt: linnet_sanitized: bonus has no test of its own"]),
    ("tests/CMakeLists.txt", "rotary_matches_oracle", "broken_rotations_are_refused",
     ["tests/CMakeLists.txt: linnet_sanitized: rotary has no test of its own"]),
    ("tests/CMakeLists.txt", "norm_matches_oracle embed", "norm_matches_oracles embed",
     ["tests/CMakeLists.txt: linnet_sanitized: no test norm_matches_oracles",
      "tests/CMakeLists.txt: linnet_sanitized: norm has no test of its own"]),
    ("tests/gpu.sh", "kept_inputs_match_oracle", "model_matches_oracle",
     ["tests/gpu.sh: small: short_conv has no test of its own", "tests/gpu.sh: small: token_shift has no test of its own"]),
    ("tests/bench/gpu_kernels.c", "b->k->bonus(b->be, &a);", "", ["tests/bench/gpu_kernels.c: bonus is not measured"]),
])
def test_what_is_left_out_is_found(operations, tree, name, old, new, found):
    file = tree / name
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    assert list(operations.missing(tree)) == found


def test_a_new_operation_needs_all_three(operations, tree):
    (tree / "kernels/ops/new").mkdir()
    (tree / "kernels/ops/new/cuda.cu").touch()
    assert [text.rsplit(": ", 1)[1] for text in operations.missing(tree)] == [
        "new has no test of its own", "new has no test of its own", "new is not measured"]
