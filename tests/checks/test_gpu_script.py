"""tests/gpu.sh, scripts/gpu-pack and scripts/serve on a machine that only seems to have a GPU.

Scripts replace nvidia-smi, nvcc, cmake and the programs of the build. So the tests show the decisions of the scripts
themselves: which checks run, in which order, which checks a failure prevents, and which files are carried.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ["conformance", "gpu_graphs", "gpu_kernels", "golden", "test_mixers", "linnet"]


def write_program(path: Path, text: str):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/usr/bin/env bash\n" + text)
    path.chmod(0o755)


@pytest.fixture
def tree(tmp_path):
    """The scripts in a tree of their own, whose `cmake --build` puts programs into the build folder that note their calls."""
    tree, bin = tmp_path / "tree", tmp_path / "bin"
    for name in ["tests/gpu.sh", "scripts/serve"]:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    for model in ["mnist", "copy/linear"]:
        (tree / "weights" / model).mkdir(parents=True)
        (tree / "weights" / model / "model.safetensors").touch()
    (tree / "tests/golden/mixture").mkdir(parents=True)
    (tree / "tests/golden/mixture/model.safetensors").touch()
    write_program(bin / "nvidia-smi", 'case "$*" in *compute_cap*) echo 9.0;; *dmon*) exec sleep 100;; *) echo "GPU 0: a GPU";; esac\n')
    write_program(bin / "nvcc", "exit 0\n")
    note = 'echo "$(basename "$0") $*" >>"$CALLS"\n'
    for program in PROGRAMS:
        write_program(bin / "built" / program, note + 'echo "1 passed, 0 failed"; grep -q "^$(basename "$0")$" "$FAILING" && exit 1; exit 0\n')
    write_program(bin / "built" / "gpu_copy", note + "echo '{\"gb_per_s\": 3000}'\n")
    write_program(bin / "cmake", note + f'case "$1" in --build) mkdir -p "$2"; cp {bin}/built/* "$2";; esac\n')
    write_program(bin / "pkg-config", "exit 0\n")
    write_program(bin / "python3", note + 'case "$1" in -c) exit 0;; esac; echo "a table"\n')
    write_program(tree / "scripts/deps", note)
    return tree


def run(tree, *command, failing=(), path=None):
    calls, list_of_failing = tree / "calls", tree / "failing"
    calls.write_text("")
    list_of_failing.write_text("".join(f"{name}\n" for name in failing))
    env = os.environ | {"PATH": f"{path or tree.parent / 'bin'}:{os.environ['PATH']}", "CALLS": str(calls), "FAILING": str(list_of_failing),
                        "CUDA_PATH": str(tree / "no-toolkit")}
    done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, timeout=120)
    return done, calls.read_text().splitlines()


def rows(done):
    """The table of the last lines: the word after each name."""
    lines = done.stdout.splitlines()
    return {line.split()[0]: " ".join(line.split()[1:3]) for line in lines if len(line.split()) > 2 and line[:1].isalpha()}


def test_models_that_were_not_brought_along_are_left_out(tree):
    done, _ = run(tree, "bash", "tests/gpu.sh")
    table = rows(done)
    assert table["golden-poem"] == "left out:" and table["golden-mnist"].startswith("ok")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("0 failed")


def test_a_failed_check_keeps_no_time_from_being_measured(tree):
    done, calls = run(tree, "bash", "tests/gpu.sh", failing=["conformance", "golden"])
    table = rows(done)
    assert done.returncode == 1
    assert table["conformance"].startswith("FAILED") and table["golden-mnist"].startswith("FAILED")
    for name in ["kernel-times", "products", "benchmark", "http"]:
        assert table[name].startswith("ok"), done.stdout
    assert any(c.startswith("gpu_kernels 8192 3000 own") for c in calls)


def test_a_check_that_takes_too_long_is_a_failure_and_the_table_is_still_printed(tree):
    write_program(tree.parent / "bin/built/gpu_graphs", "sleep 100\n")
    script = tree / "tests/gpu.sh"
    script.write_text(script.read_text().replace("beside graphs 60", "beside graphs 1"))
    done, _ = run(tree, "bash", "tests/gpu.sh")
    assert rows(done)["graphs"].startswith("FAILED") and "longer than 1 s" in done.stdout
    assert rows(done)["products"].startswith("ok") and done.returncode == 1


def test_the_matrix_library_is_found_in_the_toolkit_of_nvcc(tree):
    toolkit = tree.parent / "toolkit"
    for name in ["bin/nvcc", "include/cublasLt.h", "lib64/libcublasLt.so.13"]:
        write_program(toolkit / name, "exit 0\n")
    (tree.parent / "bin/nvcc").unlink()
    (tree.parent / "bin/nvcc").symlink_to(toolkit / "bin/nvcc")
    write_program(tree.parent / "bin/built/gpu_graphs", 'echo "LIBRARIES $LD_LIBRARY_PATH"\n')
    run(tree, "bash", "tests/gpu.sh")
    assert str(toolkit / "lib64") in (tree / "build-gpu/graphs.log").read_text()


def test_without_a_gpu_it_says_so_in_one_line(tree):
    write_program(tree.parent / "bin/nvidia-smi", "exit 9\n")
    done, calls = run(tree, "bash", "tests/gpu.sh")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and not calls


@pytest.mark.parametrize("gpu, nvcc, targets", [(True, True, "linnet kernels_cuda"), (True, False, "linnet"), (False, True, "linnet")])
def test_serve_builds_the_cuda_back_end_where_a_gpu_and_a_compiler_are(tree, gpu, nvcc, targets):
    bin = tree.parent / "bin"
    tools = tree.parent / "tools"  # without the machine's own nvcc
    tools.mkdir()
    for name in ["bash", "env", "dirname", "basename", "mkdir", "cp", "cat", "grep", "nproc", "sleep"]:
        (tools / name).symlink_to(shutil.which(name))
    if not gpu:
        write_program(bin / "nvidia-smi", "exit 9\n")
    if not nvcc:
        (bin / "nvcc").unlink()
    calls = tree / "calls"
    (tree / "failing").write_text("")
    done = subprocess.run(["bash", "scripts/serve"], cwd=tree, capture_output=True, text=True, timeout=60, env={
        "PATH": f"{bin}:{tools}", "CALLS": str(calls), "FAILING": str(tree / "failing"), "CUDA_PATH": str(tree / "no-toolkit")})
    assert done.returncode == 0, done.stderr
    (build,) = [c for c in calls.read_text().splitlines() if c.startswith("cmake --build")]
    assert build.endswith(f"--target {targets}")
    assert ("no nvcc" in done.stderr) == (gpu and not nvcc)


@pytest.fixture
def checkout(tmp_path):
    """A repository with a heavy folder, and the package of libraries as an earlier call left it."""
    repository = tmp_path / "repository"
    repository.mkdir()

    def git(*arguments):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *arguments], cwd=repository, check=True, capture_output=True,
                       timeout=60)

    git("init", "-q")
    for name in ["scripts/gpu-pack", "tests/gpu.sh"]:
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, repository / name)
    for model in ["mnist", "poem", "mnist-softmax", "couplet"]:
        (repository / "weights" / model).mkdir(parents=True)
        (repository / "weights" / model / "model.safetensors").write_bytes(bytes(1 << 20))
    git("add", ".")
    git("commit", "-qm", "all")
    (repository / ".gpu").mkdir()
    (repository / ".gpu/root.deb").write_bytes(b"x")
    return repository


def pack(checkout, *arguments):
    return subprocess.run(["scripts/gpu-pack", *arguments], cwd=checkout, capture_output=True, text=True, timeout=60)


def status(checkout):
    return subprocess.run(["git", "status", "--porcelain"], cwd=checkout, capture_output=True, text=True, check=True,
                          timeout=60).stdout


def test_packing_takes_heavy_folders_out_of_the_index_and_restore_puts_them_back(checkout):
    before = (checkout / ".git/info/exclude").read_text()
    done = pack(checkout, "tests")
    assert done.returncode == 0, done.stderr
    assert '"weights/mnist"' in done.stdout and "D  weights/couplet/model.safetensors" in status(checkout)
    done = pack(checkout, "restore")
    assert "the index is as it was" in done.stdout
    assert "weights" not in status(checkout)
    assert (checkout / ".git/info/exclude").read_text() == before


def test_packing_for_training_carries_the_data_and_names_the_recipe(checkout):
    (checkout.parent / "train.tsv.xz").write_bytes(b"poems")
    done = pack(checkout, "train", "poem", "../train.tsv.xz")
    assert done.returncode == 0, done.stderr
    assert "bash scripts/gpu-train poem" in done.stdout and '[".gpu/data"]' in done.stdout
    assert (checkout / ".gpu/data/train.tsv.xz").read_bytes() == b"poems"
    assert pack(checkout, "train", "poem").returncode == 2


def test_packing_refuses_more_than_the_machine_takes(checkout):
    (checkout / "large").write_bytes(bytes(64 << 20))
    done = pack(checkout, "size")
    assert done.returncode == 1 and "too much" in done.stderr
