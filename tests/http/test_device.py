"""The device that computes: --device, its one log line, and the server's reaction to a lost device.

The cuda back end here is the one of tests/simt: the product's own kernels, run on the CPU."""

import re
import subprocess

import pytest

import client
import hf_model
import image_model
import server
from server import Server, wait_until
from settings import LINNET, MODEL_DIR

SIMT = LINNET.parent / "simt"
COUPLET = {"prompt": "春眠不觉晓", "seed": 7}


@pytest.fixture
def fake_gpu(monkeypatch, tmp_path):
    """Servers find the back end without a GPU; returns the file whose appearance loses the device."""
    if not (SIMT / "libkernels_cuda.so").exists():
        pytest.skip("this build has no cuda back end for tests")
    lost = tmp_path / "lost"
    plain = server.environment
    extra = {"LD_LIBRARY_PATH": str(SIMT), "LINNET_SIMT_LOST": str(lost)}
    monkeypatch.setattr(server, "environment", lambda: plain() | extra)
    return lost


def device_lines(log):
    return re.findall(r"device (.*)", log)


def test_auto_without_a_gpu_says_why(monkeypatch):
    plain = server.environment
    empty = {"LD_LIBRARY_PATH": str(MODEL_DIR)}
    monkeypatch.setattr(server, "environment", lambda: plain() | empty)
    with Server("--slots", 2) as s:
        lines = device_lines(s.log)
    assert len(lines) == 1 and ("auto: cpu" in lines[0] or "auto: cuda" in lines[0]), lines


def test_auto_takes_the_gpu(fake_gpu):
    with Server("--slots", 2) as s:
        lines = device_lines(s.log)
        assert lines == ["auto: cuda, its device is there"], lines
        assert client.call(s.port, "GET", "/health").json()["backend"].startswith("cuda:0")


def test_instruction_set_means_cpu(fake_gpu):
    with Server("--slots", 2, "--isa", "plain") as s:
        assert device_lines(s.log)[0].startswith("auto: cpu")


def test_device_that_is_not_there(fake_gpu):
    result = server.run("serve", "--model", MODEL_DIR, "--port", "0", "--device", "cuda:3")
    assert result.returncode == 1
    assert "no device 3" in result.stderr
    result = server.run("serve", "--model", MODEL_DIR, "--port", "0", "--device", "gpu")
    assert result.returncode == 2
    assert "auto, cpu, cuda" in result.stderr


@pytest.mark.parametrize("command", ["serve", "generate", "bench", "eval", "chat"])
def test_a_device_is_refused_in_one_line(command, monkeypatch):
    plain = server.environment
    monkeypatch.setattr(server, "environment", lambda: plain() | {"LD_LIBRARY_PATH": str(MODEL_DIR)})
    port = ["--port", "0"] if command == "serve" else []
    for device in ("foo", "CUDA", "cuda:x", "cuda:", ""):
        result = server.run(command, "--model", MODEL_DIR, *port, "--device", device, stdin=subprocess.DEVNULL)
        assert (result.returncode, result.stdout) == (2, ""), (device, result)
        assert re.fullmatch(rf'linnet {command}: [^\n]*"{device}"[^\n]*\n', result.stderr), result.stderr
    result = server.run(command, "--model", MODEL_DIR, *port, "--device", "cuda:1023", stdin=subprocess.DEVNULL)
    assert result.returncode == 1, result
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("linnet ")]
    assert re.fullmatch(rf"linnet {command}: --device cuda:1023: .*; use --device cpu", line), line


@pytest.mark.parametrize("device", ["cuda", pytest.param("auto", marks=pytest.mark.long)])
@pytest.mark.parametrize("attention", [
    {"kind": "lsh", "rounds": 1, "buckets": 4, "cap": 6, "scale": "key"},
    {"kind": "memory_compressed", "factor": 2, "visible": "strict", "null": "learned"},
    {"kind": "softmax_recompute"},
], ids=lambda attention: attention["kind"])
def test_a_kind_that_the_device_lacks_is_served_by_the_cpu(fake_gpu, tmp_path, device, attention):
    """The device keeps the other models, and the log names in one line the models on the CPU."""
    beside = attention if attention["kind"] == "softmax_recompute" else image_model.LINEAR  # which is of all layers
    image_model.write(tmp_path / "mixed", 6, 5, attention=[beside, attention])
    image_model.write(tmp_path / "plain", 6, 5)
    picture = {"seed": 3, "response_format": "b64_json"}
    with Server("--device", device, "--slots", 2, "--models", tmp_path) as s:
        of_device = {m: client.call(s.port, "POST", "/v1/images/generations", picture | {"model": m}).json() for m in ("mixed", "plain")}
        assert len(re.findall("served by the CPU", s.log)) == 1 and "model mixed is served by the CPU" in s.log, s.log
        prints = {m["id"]: m["fingerprint"] for m in client.call(s.port, "GET", "/v1/models").json()["data"] if "fingerprint" in m}
    with Server("--device", "cpu", "--slots", 2, "--models", tmp_path) as s:
        of_cpu = client.call(s.port, "POST", "/v1/images/generations", picture | {"model": "mixed"}).json()
    assert of_device["mixed"]["data"] == of_cpu["data"] and of_device["plain"]["data"][0]["b64_json"]
    assert not prints or ("-cpu-" in prints["mixed"] and "-cuda" in prints["plain"]), prints


def test_experts_are_on_the_cpu(fake_gpu, tmp_path):
    """A server puts the model there and says so. A command for one model refuses the device."""
    hf_model.write(tmp_path / "model", hf_model.folders.JAMBA_EXPERTS, hf_model.folders.jamba_tensors)
    with Server("--device", "cuda", "--slots", 2, model_dir=tmp_path / "model") as s:
        assert "model model is served by the CPU: the back end cuda lacks one of its mixers" in s.log, s.log
        assert client.complete_ok(s.port, model="model", prompt="a", max_tokens=3, ignore_eos=True)["usage"]["completion_tokens"] == 3
    said = server.run("generate", "--model", tmp_path / "model", "--device", "cuda", "--prompt", "a")
    assert said.returncode == 1, said
    assert said.stderr.endswith("model: feed-forward net experts is not on the back end cuda: use --device cpu\n"), said.stderr


def test_slots_come_from_the_devices_memory(fake_gpu):
    with Server("--device", "cuda") as s: # the fake device has 1 GiB
        slots = int(re.search(r"(\d+) slots", s.log).group(1))
        assert 256 < slots < 16384


def test_lost_device_fails_requests_and_readiness_but_not_the_process(fake_gpu):
    with Server("--device", "cuda", "--slots", 2) as s:
        client.complete_ok(s.port, **COUPLET)
        fake_gpu.touch()
        for _ in range(2):  # the request that finds the loss, and one that is refused
            bad = client.complete(s.port, **COUPLET)
            assert bad.status in (500, 503), bad.text
            assert bad.json()["error"]["message"]
        wait_until(lambda: client.call(s.port, "GET", "/readyz").status == 503, 60, "readyz")
        assert client.call(s.port, "GET", "/livez").status == 200
        assert s.process.poll() is None
