"""tests/bench/inner_loops.py on a listing whose counts are known."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
import inner_loops  # noqa: E402

# A loop of two rows within an outer one, then the end of a chunk, and a function that is no micro-kernel.
LISTING = """
0000000000000000 <run_wide_2>:
   0:\tmov\tx3, #0x0                   \t// #0
   4:\tldp\tq16, q17, [x1]
   8:\tldr\ts0, [x4, x3, lsl #2]
   c:\tldr\tq18, [sp, #128]
  10:\tfmla\tv1.4s, v16.4s, v0.s[0]
  14:\tfmla\tv2.4s, v17.4s, v0.s[0]
  18:\tfmla\tv1.4s, v18.4s, v0.s[0]
  1c:\tcmp\tx3, x5
  20:\tb.lt\t4 <run_wide_2+0x4>  // b.tstop
  24:\tscvtf\tv3.4s, v1.4s
  28:\tfmla\tv4.4s, v3.4s, v5.4s
  2c:\tcbnz\tx3, 24 <run_wide_2+0x24>
  30:\tb.lt\t0 <run_wide_2>  // b.tstop

0000000000000100 <other>:
 100:\tfmla\tv1.4s, v16.4s, v0.s[0]
 104:\tb.lt\t100 <other>  // b.tstop
"""


def test_counts_of_a_loop():
    (loop,) = inner_loops.loops(LISTING)
    assert (loop.rows, loop.wide, loop.weights, loop.product) == (2, True, "f32", "fmla")
    assert (loop.products, loop.size, loop.memory, loop.stack, loop.vectors, loop.longest) == (3, 8, 4, 1, 3, 2)


def test_the_scarcest_of_a_core_is_its_bound():
    (loop,) = inner_loops.loops(LISTING)
    core = inner_loops.Core("of the test", 8, 1, 8, {"fmla": 1})
    assert loop.share(core) == 1  # three products, one unit
    core.vectors, core.loads = 3, 1
    assert loop.share(core) == 1 / 4  # four of loads and stores
    core.loads, core.width = 8, 4
    assert loop.share(core) == 1 / 2  # eight instructions; as long as the chain of two
    core.width, core.chain = 8, {"fmla": 4}
    assert loop.share(core) == 1 / 8  # two products into one register
    core.chain = {"sdot": 1}
    assert loop.share(core) is None


def test_widened_weights_are_told_from_f32():
    widened = LISTING.replace("ldr\tq18, [sp, #128]", "shl\tv18.4s, v17.4s, #16")
    (loop,) = inner_loops.loops(widened)
    assert (loop.weights, loop.stack, loop.vectors) == ("bf16 as f32", 0, 4)
