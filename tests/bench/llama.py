"""llama.cpp's server as a peer of the benchmarks: the build that scripts/peers makes for this processor."""

import contextlib
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

PLACE = Path.home() / ".cache" / "linnet" / "peers"
# Words of llama.cpp's line of features, and the processor's flags that they stand for.
SETS = {"AVX2": "avx2", "F16C": "f16c", "FMA": "fma", "AVX_VNNI": "avx_vnni", "AVX512": "avx512f", "AVX512_VBMI": "avx512vbmi",
        "AVX512_VNNI": "avx512_vnni", "AVX512_BF16": "avx512_bf16", "AMX_INT8": "amx_int8"}
OF_AVX2 = ("AVX2", "F16C", "FMA")  # what a build for processors without AVX-512 has
START_S, STOP_S = 120, 10


def add_argument(parser):
    parser.add_argument("--llama", type=Path, metavar="PROGRAM", default=PLACE / "llama-server",
                        help="llama.cpp's server; scripts/peers builds it for this processor")


def command_of(program, file, threads, streams, tokens, poll=50):
    """Serves the file with room for so many tokens in each of the streams; poll says how long idle threads spin, 0 to 100."""
    return list(map(str, [program, "-m", file, "-t", threads, "-tb", threads, "-np", streams, "-c", streams * tokens, "-ngl", 0,
                          "--poll", poll, "--poll-batch", poll, "--host", "127.0.0.1", "--no-webui"]))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def is_ready(url):
    try:
        with urllib.request.urlopen(url + "/health", timeout=2) as answer:
            return answer.status == 200
    except (OSError, urllib.error.URLError):
        return False


@contextlib.contextmanager
def serve(command):
    """The address and the process id of the server that the command starts, which ends with the block."""
    port = free_port()
    url, end = f"http://127.0.0.1:{port}", time.monotonic() + START_S
    with subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while not is_ready(url):
                if process.poll() is not None or time.monotonic() > end:
                    sys.exit(f"llama.cpp did not start: {' '.join(command)}")
                time.sleep(0.05)
            yield url, process.pid
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()


def describe(program, isa="auto"):
    """A line with the version, which scripts/peers wrote next to the program, and with the instruction sets. Ends the benchmark
    when the build lacks a set that this processor has, or with isa "avx2" when its sets are others than OF_AVX2."""
    if not Path(program).is_file():
        sys.exit(f"there is no {program}; scripts/peers builds it")
    version = Path(program).with_name("version").read_text().strip()
    # A file that is none: the features are printed before it is read.
    said = subprocess.run([program, "-lv", "5", "-m", "/dev/null", "--port", str(free_port())], capture_output=True, text=True,
                          timeout=START_S)
    has = dict(re.findall(r"(\w+) = (\d)", said.stdout + said.stderr))
    own = {name for name in SETS if has.get(name) == "1"}
    if isa == "avx2" and own != set(OF_AVX2):
        sys.exit(f"{program} was built with {', '.join(sorted(own))}, not with {', '.join(OF_AVX2)}; scripts/peers --isa avx2 builds that")
    flags = re.search(r"^flags\s*:(.*)", Path("/proc/cpuinfo").read_text(), re.M)[1].split()
    missing = [name for name, flag in SETS.items() if flag in flags and name not in own]
    if missing and isa == "auto":
        sys.exit(f"{program} was built without {', '.join(missing)}, which this processor has; scripts/peers builds it anew")
    return f"peer: llama.cpp of {version}, built with {', '.join(name for name in SETS if name in own)}"
