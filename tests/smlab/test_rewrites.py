"""Changes that ``smlab advise`` makes on a kernel's syntax tree: what they make of a text, and that what they
make computes the same."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smlab.cli.main import run
from smlab.commands.advise.kernel_advice import COMBINED, RESTRICT, KernelAdvice
from smlab.commands.advise.rewrites.all_rewrites import ADVISED_BY, rewrites_of
from smlab.commands.advise.rewrites.memory import restricted_pointers
from smlab.commands.advise.rewrites.parsed import (
    ParsedKernel,
    TextEdit,
    applied,
    edit_between,
    whole_number,
)
from smlab.commands.advise.source_versions import FAST_MATH, SourceChange, SourceVersions
from smlab.commands.advise.trying import run_and_keep, simulated
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles.pc_samples.samples import KernelSamples
from smlab.sim.isa.launch.launch_file import LaunchFile, launch_of, read_launch

THREADS = 128


def launch(grid: int | list[int] = 4, block: int | list[int] = THREADS, **arguments: Any) -> LaunchFile:
    rows = []
    for name, value in arguments.items():
        row = {"name": name, "dtype": "float32", "make": "uniform", "low": 1, "high": 2, "seed": 1}
        if isinstance(value, int):
            row = {"name": name, "dtype": "int32", "value": value}
        elif name in ("out", "sums"):
            row = {"name": name, "dtype": "float32", "make": "zeros", "shape": value, "returned": True}
        elif name == "count":
            row = {"name": name, "dtype": "int32", "make": "zeros", "shape": value, "returned": True}
        else:
            row["shape"] = value
        rows.append(row)
    return launch_of("k.toml", {"launch": {"grid": grid, "block": block}, "argument": rows}, Path())


def changed(text: str, of: LaunchFile, kind: str) -> list[str]:
    """The kernel's text after each change of a kind."""
    found = [r for r in rewrites_of(text, "k", of) if r.kind == kind]
    made = [applied(text, r.edits) for r in found]
    assert None not in made
    return [text for text in made if text is not None]


HEAD = 'extern "C" __global__ void k'
ROWS = f"""{HEAD}(const float *x, float *out)
{{
    __shared__ float tile[32][32], flat[32];
    tile[threadIdx.y][threadIdx.x] = x[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}}
"""


def test_rows_of_two_dimensions_get_a_word() -> None:
    (text,) = changed(ROWS, launch(1, [32, 32], x=[1024], out=[1024]), "padded-rows")
    assert "tile[32][(32) + 1], flat[32]" in text


def test_pointers_to_rows_follow_them() -> None:
    """The parser takes such a declaration for an assignment."""
    source = f"""{HEAD}(const float *x, float *out)
{{
    __shared__ float tile[4][32][32], other[4][32];
    float (*rows)[32] = tile[threadIdx.y];
    float(&part)[32][32] = tile[0];
    float (*none)[32] = (float (*)[32])out;
    rows[threadIdx.x][0] = x[threadIdx.x];
    out[threadIdx.x] = part[0][threadIdx.x] + none[0][0];
}}
"""
    (text,) = changed(source, launch(1, [32, 4], x=[1024], out=[1024]), "padded-rows")
    assert "tile[4][32][(32) + 1], other[4][(32) + 1]" in text
    assert "(*rows)[(32) + 1] = tile[threadIdx.y]" in text
    assert "(&part)[32][(32) + 1] = tile[0]" in text
    assert "(*none)[32] = (float" in text


def test_no_overlap_is_said_of_each_pointer_once() -> None:
    source = f"""{HEAD}(const float *x, float *__restrict__ y, const int n, float2* out, float **rows)
{{
    out[n].x = x[n] + y[n] + rows[0][n];
}}
"""
    text = applied(source, restricted_pointers(source, "k"))
    assert text is not None
    head = "(const float *__restrict__ x, float *__restrict__ y, const int n, float2* __restrict__ out, "
    assert head + "float **__restrict__ rows)" in text
    assert restricted_pointers(text, "k") == ()
    assert restricted_pointers("no kernel at all", "k") == ()


def test_steps_of_a_power_of_two_meet_other_banks_where_words_are_left_free() -> None:
    source = f"""{HEAD}(const float *x, float *out)
{{
    __shared__ float tree[COUNT];
    tree[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tree[2 * (int)tree[threadIdx.x] + 1];
}}
"""
    (text,) = changed(source, launch(1, x=[128], out=[128]), "padded-rows")
    assert "tree[smlab_spread(COUNT)]" in text
    assert "tree[smlab_spread(2 * (int)tree[smlab_spread(threadIdx.x)] + 1)]" in text
    handed_on = source.replace("= x[threadIdx.x];", "= x[threadIdx.x]; f(tree);")
    assert changed(handed_on, launch(1, x=[128], out=[128]), "padded-rows") == []


def test_an_array_is_changed_in_place_by_vectors_where_only_its_own_element_is_read() -> None:
    source = f"""{HEAD}(const float *x, float *out, int n)
{{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {{
        const float old = out[i];
        out[i] = old + x[i];
    }}
}}
"""
    of = launch(x=[512], out=[512], n=512)
    by_four, by_two = changed(source, of, "vector-loads")
    assert "const float4 *>(&out[smlab_first])" in by_four
    assert by_four.count("*reinterpret_cast<float4 *>(&out[smlab_first])") == 1
    assert "float2" in by_two
    added = source.replace("out[i] = old", "out[i] += old")
    assert "const float4 *>(&out[smlab_first])" in changed(added, of, "vector-loads")[0]
    neighbours = source.replace("= out[i];", "= out[i + 1];")
    assert "&out[" not in changed(neighbours, of, "vector-loads")[0]


def test_a_table_that_is_only_read_becomes_constant() -> None:
    source = f"{HEAD}(const float *x, float *out, int n)\n{{\n    out[threadIdx.x] = x[n];\n}}\n"
    of = launch(x=[64], out=[THREADS], n=3)
    (text,) = changed(source, of, "constant-table")
    assert text.startswith(f"__constant__ float x[64];\n{HEAD}(float *out, int n)")
    (rewrite,) = [r for r in rewrites_of(source, "k", of) if r.kind == "constant-table"]
    assert rewrite.relaunched is not None
    after = rewrite.relaunched(of)
    assert after.names == ("out", "n")
    assert after.constants["x"].shape == (64,)
    assert not changed(source.replace("out[", "x["), of, "constant-table")
    assert not changed(source, launch(x=[1 << 15], out=[THREADS], n=3), "constant-table")


COUNTS = f"""{HEAD}(const float *x, int *count, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    atomicAdd(&count[(int)x[i]], 1);
}}
"""


def test_counters_of_a_block_survive_an_early_return() -> None:
    (text,) = changed(COUNTS, launch(x=[500], count=[4], n=500), "own-counters")
    assert "__device__ __forceinline__ void smlab_body(" in text
    assert "atomicAdd(&smlab_own_count[(int)x[i]], 1);" in text
    assert text.count("__syncthreads();") == 2


TREE = f"""{HEAD}(const float *x, float *out)
{{
    __shared__ float part[{THREADS}];
    float mine = x[blockIdx.x * {THREADS} + threadIdx.x];
    part[threadIdx.x] = mine;
    __syncthreads();
    for (int half = {THREADS} / 2; half > 0; half /= 2) {{
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }}
    out[blockIdx.x * {THREADS} + threadIdx.x] = mine / part[0];
}}
"""


def test_a_tree_becomes_shuffles_or_needs_no_barrier_of_the_block() -> None:
    made = changed(TREE, launch(x=[512], out=[512]), "trees")
    assert ["__shfl_xor_sync" in text for text in made] == [True, True, False]
    assert all("mine / smlab_part1" in text for text in made[:2])
    assert "if (half > 32) __syncthreads(); else __syncwarp();" in made[2]


def test_a_remainder_becomes_a_comparison_only_where_a_sum_is_wrapped() -> None:
    source = f"{HEAD}(float *out, int n)\n{{\n    out[(threadIdx.x + 1) % n] = threadIdx.x % n;\n}}\n"
    compared, unsigned, _ = changed(source, launch(out=[THREADS], n=100), "integers")
    assert "smlab_wrapped((threadIdx.x + 1), n)" in compared
    assert "((int)(threadIdx.x) - ((int)((unsigned)(threadIdx.x) / (unsigned)(n))) * (int)(n))" in compared
    assert "smlab_wrapped" not in unsigned
    masked = changed(source, launch(out=[THREADS], n=THREADS), "integers")[-1]
    assert "out[((threadIdx.x + 1) & (n - 1))] = ((threadIdx.x) & (n - 1));" in masked.replace(
        "((threadIdx.x + 1))", "(threadIdx.x + 1)"
    )
    called = source.replace("threadIdx.x % n", "hash(threadIdx.x) % n")
    assert (
        "((hash(threadIdx.x)) & (n - 1))" in changed(called, launch(out=[THREADS], n=THREADS), "integers")[-1]
    )
    floats = source.replace("% n", "/ 2.5f").replace("[(threadIdx.x + 1) / 2.5f]", "[0]")
    assert not changed(floats, launch(out=[THREADS], n=1), "integers")


def test_what_a_loop_leaves_alone_comes_before_it() -> None:
    source = (
        f"{HEAD}(const float *x, float *out, int n)\n{{\n    for (int i = 0; i < n; i++) {{\n"
        "        float w = expf(x[threadIdx.x]);\n        float v = i * w;\n"
        "        out[i * blockDim.x + threadIdx.x] = v;\n    }\n}\n"
    )
    made = changed(source, launch(x=[THREADS], out=[4 * THREADS], n=4), "hoisted")
    assert "{ float w; w = expf(x[threadIdx.x]);\nfor (int i = 0; i < n; i++)" in made[0]
    assert not changed(source.replace("expf(x[threadIdx.x])", "expf(x[i])"), launch(n=4), "hoisted")


def test_fields_and_limits_that_a_loop_loads_again_come_before_it() -> None:
    """First what no store of the loop can be, then also an element of the array that it sets others of."""
    source = (
        f"struct V {{ int first; int many; }};\n{HEAD}(V *at, int *to, int *cost)\n"
        "{\n    int v = threadIdx.x;\n"
        "    for (int e = at[v].first; e < at[v].first + at[v].many; e++) {\n"
        "        cost[to[e]] = cost[v] + 1;\n    }\n}\n"
    )
    made = changed(source, launch(at=[THREADS], to=[THREADS], cost=[THREADS]), "hoisted")
    assert len(made) == 2
    assert "e < smlab_hoisted0 + smlab_hoisted1" in made[0]
    assert "cost[to[e]] = cost[v] + 1" in made[0]
    assert "cost[to[e]] = smlab_hoisted2 + 1" in made[1]
    # An element that the loop sets stays where it is.
    own = source.replace("cost[to[e]] = cost[v] + 1", "cost[v] = cost[v] + to[e]")
    assert all("cost[v] = cost[v] + to[e]" in text for text in changed(own, launch(), "hoisted"))


def test_names_of_types_and_sizes_stand_for_what_they_are() -> None:
    source = """typedef float real;
constexpr int WIDTH = 1 << 5;
#define MANY (2 * WIDTH + 1)
template <typename T> __global__ void k(const T *x, const real *y, float *out) { real z = y[0]; out[0] = z; }
"""
    parsed = ParsedKernel(source, "k", launch(x=[4], y=[4], out=[4]))
    assert parsed.macros == {"WIDTH": 32, "MANY": 65}
    assert parsed.declared == {"x": "float *", "y": "float *", "out": "float *", "z": "float"}
    assert whole_number("7u / 0", {}) is None
    assert whole_number("-WIDTH", {"WIDTH": 3}) == -3
    assert whole_number("1.5", {}) is None


def test_fields_of_structures_lie_apart() -> None:
    source = f"""struct Body {{{{ float x, m; }}}};
{HEAD}(const Body *bodies, float *out)
{{
    const Body mine = bodies[threadIdx.x];
    out[threadIdx.x] = mine.m + bodies[threadIdx.x + 1].x;
}}
""".replace("{{", "{").replace("}}", "}")
    of = launch(1, bodies=[258], out=[128])
    (text, *_) = changed(source, of, "transposed-array")
    first, last = (f"((const float *)bodies)[{at} + (threadIdx.x)]" for at in (0, 129))
    assert f"mine = {{{first}, {last}}};" in text
    assert "((const float *)bodies)[0 + (threadIdx.x + 1)];" in text


def test_rows_are_exchanged_where_an_index_or_a_pointer_stands_for_them() -> None:
    source = f"""{HEAD}(const float *x, float *out)
{{
    const float *row = x + threadIdx.x * 4;
    int at = threadIdx.x * 4 + 1;
    out[at] = row[2];
}}
"""
    of = launch(1, x=[512], out=[512])
    (text, *_) = changed(source, of, "transposed-array")
    assert "row = x + (0) * 128 + (threadIdx.x)" in text
    assert "out[(1) * 128 + (threadIdx.x)] = row[(2) * 128];" in text


def test_a_transposed_array_comes_back_as_it_was() -> None:
    source = f"{HEAD}(float *out, int n)\n{{\n    out[threadIdx.x * 3 + blockIdx.x] = threadIdx.x;\n}}\n"
    of = launch(3, THREADS, out=[THREADS, 3], n=THREADS)
    (rewrite,) = [r for r in rewrites_of(source, "k", of) if r.kind == "transposed-array"]
    text = applied(source, rewrite.edits)
    assert text is not None
    assert "out[(blockIdx.x) * n + (threadIdx.x)]" in text
    assert rewrite.relaunched is not None
    assert rewrite.restored is not None
    numbers = np.arange(3 * THREADS, dtype=np.float32).reshape(THREADS, 3)
    laid_out = np.ascontiguousarray(numbers.T).reshape(THREADS, 3)
    assert np.array_equal(rewrite.restored({"out": laid_out})["out"], numbers)


def test_edits_of_one_place_do_not_go_together() -> None:
    assert applied("abcdef", (TextEdit(1, 3, "X"), TextEdit(2, 4, "Y"))) is None
    assert applied("abcdef", (TextEdit(1, 3, "X"), TextEdit(3, 4, "Y"), TextEdit(0, 0, ">"))) == ">aXYef"
    assert applied("some text", (edit_between("some text", "some other text"),)) == "some other text"


def test_no_change_is_made_of_what_is_no_kernel() -> None:
    assert rewrites_of("int f() { return 1; }", "k", launch()) == ()
    assert rewrites_of("} ] not C at all", "k", launch()) == ()
    with pytest.raises(ValueError, match="0 kernels"):
        ParsedKernel("", "k")


LAUNCH = """[launch]
grid = 4
block = 128
[[argument]]
name = "x"
dtype = "float32"
shape = [512]
make = "uniform"
low = 1
high = 4
seed = 1
[[argument]]
name = "{name}"
dtype = "{dtype}"
shape = [{size}]
make = "zeros"
returned = true
"""
N = """[[argument]]
name = "n"
dtype = "int32"
value = 500
"""


SUMS = f"""{HEAD}(const float *x, float *out, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f, most = -1.0f;
#pragma unroll 1
    for (int r = 0; r <= 62; r++) {{
        sum = fmaf(x[r], 0.25f, sum);
        most = fmaxf(most, x[r] * x[i]);
    }}
    out[i] = sum + most;
}}
"""
DOUBLES = f"""#define HALF 0.5
{HEAD}(const float *x, float *out, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float y = x[i];
    for (int r = 0; r < n; r++)
        y = y * HALF + 1.25e-1;
    out[i] = y;
}}
"""
TILES = f"""{HEAD}(const float *x, float *out, int n)
{{
    __shared__ float tile[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < n / 128; t++) {{
        int from = t * 128;
        tile[threadIdx.x] = x[from + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 128; j++)
            sum += tile[j] * j;
        __syncthreads();
    }}
    out[i] = sum;
}}
"""
SHARED_COUNTS = f"""{HEAD}(const float *x, int *count, int n)
{{
    __shared__ int bins[4];
    if (threadIdx.x < 4)
        bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[(int)x[i] & 3], 1);
    __syncthreads();
    if (threadIdx.x < 4)
        atomicAdd(&count[threadIdx.x], bins[threadIdx.x]);
}}
"""
KEPT = f"""{HEAD}(const float *x, int *count, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (x[i] > 2.0f) {{
        int at = atomicAdd(count, 1);
        count[1 + at] = i;
    }}
}}
"""
MEETING = f"""{HEAD}(const float *x, int *count, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int word = x[i] < 1.5f ? 0 : i * 7 % 5;
    atomicAdd(&count[8 + i / 256], i);
    if (x[i] > 1.2f) {{
        atomicAdd(&count[word], i);
    }}
}}
"""
FLOATS_MEETING = (
    MEETING.replace("int *count", "float *out").replace("count[", "out[").replace(", i);", ", x[i]);")
)
ROW_SUMS = f"""{HEAD}(const float *x, float *out, int n)
{{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 1.0f;
    for (int k = 0; k < 32; k++)
        sum += x[(row + k * k) % 500];
    out[row] = sum;
}}
"""
AROUND = f"""{HEAD}(const float *x, float *out, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float *mine = x + i;
    if (i >= n) return;
    float sum = x[min(max(i - 1, 0), 511)] - x[i];
    for (int k = -3; k <= 3; k++)
        sum += x[min(max(i + k, 0), 511)];
    out[i] = sum;
}}
"""
IN_MEMORY = f"""{HEAD}(const float *x, float *out, int n)
{{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < 4; k++)
        out[row] += x[(row + k) % 500] / n;
}}
"""


SLOW_LANES = f"""{HEAD}(const float *x, float *out, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i * 64 + j < n && j < 1)
        out[i * 64 + j] = 2.0f * x[i * 64 + j];
}}
"""
ONE_ADDS = f"""{HEAD}(const float *x, float *out, int n)
{{
    __shared__ float part[128];
    part[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {{
        float sum = 1.0f, most = part[0];
        for (int k = 0; k < 128; k++)
            sum += part[k];
        for (int k = 1; k < 128; k++)
            most = fmaxf(most, part[k]);
        out[2 * blockIdx.x] = sum;
        out[2 * blockIdx.x + 1] = most;
    }}
}}
"""
COPIED_ON = f"""{HEAD}(const float *x, float *out, int n)
{{
    __shared__ float now[129], last[129];
    int i = threadIdx.x;
    now[i + 1] = 0.0f;
    last[i + 1] = x[blockIdx.x * 128 + i];
    if (i == 0)
        last[0] = 3.0f;
    __syncthreads();
    for (int r = 0; r < 5; r++) {{
        now[i + 1] = 0.5f * (last[i] + last[i + 1]);
        __syncthreads();
        last[i + 1] = now[i + 1];
        __syncthreads();
    }}
    out[blockIdx.x * 128 + i] = last[i + 1];
}}
"""
IN_PLACE = f"""{HEAD}(const float *x, float *out, int n)
{{
    __shared__ float v[129];
    int i = threadIdx.x;
    v[i] = x[blockIdx.x * 128 + i];
    if (i == 0)
        v[128] = 1.0f;
    __syncthreads();
    for (int r = 127; r >= 0; r--) {{
        float next = v[i] + v[i + 1];
        __syncthreads();
        if (i <= r)
            v[i] = 0.5f * next;
        __syncthreads();
    }}
    if (i == 0)
        out[blockIdx.x] = v[0];
}}
"""
STRUCTURES = f"""struct Sums {{{{ int first, second, third, fourth; }}}};
{HEAD}(const float *x, Sums *count, int n)
{{{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Sums *mine = &count[(int)x[i] & 1];
    atomicAdd(&mine->first, 1);
    atomicAdd(&mine->third, i);
}}}}
""".replace("{{", "{").replace("}}", "}")
TWO_TABLES = f"""#define KINDS (8 / 4)
{HEAD}(const float *x, int *count, int n)
{{
    __shared__ int bins[KINDS][3], many[3];
    if (threadIdx.x < 6)
        bins[threadIdx.x / 3][threadIdx.x % 3] = 0;
    if (threadIdx.x < 3)
        many[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x, kind = (int)x[i] % 3;
    atomicAdd(&bins[threadIdx.x & 1][kind], i);
    atomicAdd(&many[kind], 1);
    __syncthreads();
    if (threadIdx.x < 6)
        atomicAdd(&count[threadIdx.x], bins[threadIdx.x / 3][threadIdx.x % 3] + many[threadIdx.x % 3]);
}}
"""
WHOLE_SHARED = f"""{HEAD}(const float *x, int *count, int n)
{{
    __shared__ int digits[1024];
    for (int k = threadIdx.x; k < 1024; k += blockDim.x)
        digits[k] = (int)(x[k % 512] * 10.0f);
    __syncthreads();
    count[blockIdx.x * blockDim.x + threadIdx.x] = digits[(7 * threadIdx.x) % 1024];
}}
"""
SPLIT = f"""{HEAD}(const float *x, float *out, int n)
{{
    __shared__ float part[4];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        sum += x[i] * blockIdx.x;
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {{
        sum = part[0] + part[1] + part[2] + part[3];
        out[blockIdx.x] = sum;
    }}
}}
"""
MARKS = f"""{HEAD}(const float *x, int *count, int n)
{{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    bool found = false;
    for (int k = 0; k < 40; k++)
        if (x[(row + 3 * k) % 500] > 3.9f)
            found = true;
    if (found)
        count[row] = 1;
}}
"""
DIVIDED = f"""{HEAD}(const float *x, float *out, int n)
{{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const size_t at = i;
    out[i] = x[i % n] + i / (n * n) % n + (at / 7 + 1) % n;
}}
"""
ALIGNED = f"""struct Point {{{{ float x, y, z, w; }}}};
{HEAD}(const Point *x, Point *out, int n)
{{{{
    int i = threadIdx.x;
    Point p = x[i];
    p.w = p.x + p.y;
    out[i] = p;
}}}}
""".replace("{{", "{").replace("}}", "}")


@pytest.mark.skipif(not has_compiler(), reason="the CUDA compiler of the extra cuda12 is not installed")
@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        pytest.param(SUMS, {"split-sums": 2, "more-work": 1}, id="sums"),
        pytest.param(DOUBLES, {"single-precision": 1}, id="doubles"),
        pytest.param(TILES, {"loads-ahead": 2}, id="tiles"),
        pytest.param(SHARED_COUNTS, {"own-counters": 2}, id="copies"),
        pytest.param(KEPT, {"warp-aggregation": 2}, id="aggregation"),
        pytest.param(MEETING, {"warp-aggregation": 1}, id="meeting"),
        pytest.param(FLOATS_MEETING, {"warp-aggregation": 1}, id="floats meeting"),
        pytest.param(ROW_SUMS, {"lanes-along-rows": 1, "split-sums": 2}, id="rows"),
        pytest.param(AROUND, {"window": 1}, id="window"),
        pytest.param(IN_MEMORY, {"register-sum": 1, "integers": 1}, id="registers"),
        pytest.param(SLOW_LANES, {"axis": 1}, id="axes"),
        pytest.param(ONE_ADDS, {"trees": 1}, id="one-adds"),
        pytest.param(COPIED_ON, {"roles": 1}, id="roles"),
        pytest.param(IN_PLACE, {"twice,": 1}, id="in-turn"),
        pytest.param(STRUCTURES, {"own-counters": 1}, id="structures"),
        pytest.param(TWO_TABLES, {"copies": 2}, id="tables"),
        pytest.param(WHOLE_SHARED, {"less-shared": 2}, id="narrower"),
        pytest.param(SPLIT, {"split-loop": 3}, id="split"),
        pytest.param(MARKS, {"lanes-along-rows": 1}, id="marks"),
        pytest.param(DIVIDED, {"integers": 4}, id="divided"),
        pytest.param(ALIGNED, {"aligned": 1}, id="aligned"),
    ],
)
def test_changes_of_a_kind_compute_the_same(source: str, kinds: dict[str, int], tmp_path: Path) -> None:
    """Each change of these kinds is compiled and run, and its results are compared."""
    name, dtype = ("count", "int32") if "count" in source else ("out", "float32")
    (tmp_path / "k.cu").write_text(source)
    (tmp_path / "k.toml").write_text(LAUNCH.format(name=name, dtype=dtype, size=1024) + N)
    path, gpu = tmp_path / "k.toml", load_gpu("v100")
    how = {"name": None, "folders": (), "sms": "all"}
    base = run_and_keep(str(tmp_path / "k.cu"), path, {}, gpu, how)
    made = rewrites_of(source, "k", read_launch(path, {}))
    versions = SourceVersions(base, tmp_path / "k.cu", KernelAdvice(base_samples(), gpu, None, None, ()))
    for kind, many in kinds.items():
        mine = [rewrite for rewrite in made if kind in (rewrite.kind, *rewrite.text.split())]
        assert len(mine) >= many
        for rewrite in mine:
            change = SourceChange(rewrites=(rewrite,))
            done = simulated(
                base,
                rewrite.text,
                rewrite.kind,
                kernel=versions.compiled(change),
                change=change.relaunched,
                restore=change.restored,
            )
            assert done.results_equal, (rewrite.text, done.note)


def base_samples() -> KernelSamples:
    return KernelSamples("k", (), "k.toml")


@pytest.mark.skipif(not has_compiler(), reason="the CUDA compiler of the extra cuda12 is not installed")
@pytest.mark.parametrize(
    ("source", "toml", "name", "how"),
    [
        pytest.param(
            TREE, LAUNCH.format(name="out", dtype="float32", size=512), "fewer-barriers", "tried", id="tree"
        ),
        pytest.param(
            COUNTS,
            LAUNCH.format(name="count", dtype="int32", size=4) + N,
            "own-counters",
            "tried",
            id="counts",
        ),
    ],
)
def test_a_change_of_the_tree_is_tried_and_compared(
    source: str, toml: str, name: str, how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.cu").write_text(source)
    (tmp_path / "k.toml").write_text(toml)
    assert (
        run(["advise", str(tmp_path / "k.cu"), "--launch", str(tmp_path / "k.toml"), "--json", "--top", "20"])
        == 0
    )
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    versions = [v for v in kernel["trials"]["versions"] if v["kind"] in ADVISED_BY]
    assert versions
    assert all(v["results_equal"] for v in versions if v["kind"] in ("trees", "own-counters"))
    advice = {one["optimizer"]: one for one in kernel["advice"]}
    assert advice[name]["how"] == how
    assert advice[name]["speedup"] > 1


def test_two_options_together_are_no_number_of_either() -> None:
    """Pointers that do not overlap, tried beside fast math, were told as 5.82 where they gain 2.92."""
    assert SourceChange(flags=(RESTRICT, FAST_MATH)).kind == COMBINED
    assert SourceChange(flags=(RESTRICT,)).kind == "restrict"
    assert SourceChange(flags=(FAST_MATH,)).kind == "fast-math"
