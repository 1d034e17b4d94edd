"""Kinds of files that users give, whole ones of each, and what reads them, to be damaged by seed."""

from __future__ import annotations

import csv
import functools
import gzip
import io
import json
import lzma
import random
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibration_trials import SMALL
from hostile import (
    flipped,
    hostile_listing,
    hostile_source,
    mutated_bytes,
    mutated_table,
    mutated_tree,
    toml_text,
)
from smlab.cli.main import run
from smlab.commands.project.measured_times import read_truth
from smlab.examples import KERNEL, PROFILE, TUNING_SPACE
from smlab.hw_bench.arrays import load_array, load_arrays
from smlab.hw_bench.cuda.measuring.dataset import DataSet
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.datasets import read_neusight
from smlab.hw_bench.datasets.bench_folder import read_bench_folder
from smlab.hw_bench.datasets.nsys import read_nsys
from smlab.hw_bench.datasets.plain_times import read_plain
from smlab.hw_bench.datasets.timed_kernels import read_timed_kernels
from smlab.hw_bench.gpu import descriptions
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.inputs import load_json
from smlab.hw_bench.profiles import read_profile
from smlab.hw_bench.profiles.pc_samples.sample_code import read_functions
from smlab.hw_bench.profiles.pc_samples.sample_files import read_samples
from smlab.hw_bench.sass import read_regions
from smlab.models.utilization.counter_maps import CounterMaps
from smlab.models.utilization.service_table import ServiceTable
from smlab.models.utilization.trust_map import TrustMap
from smlab.sim.frontends.registry import load_kernel
from smlab.sim.isa.launch.launch_file import read_launch
from smlab.sim.isa.launch.program_file import read_program
from smlab.sim.traces.reading import read_list, read_trace
from smlab.sim.workloads.workload_file import read_workload
from smlab.validation.calibrate.dataset import read_set
from smlab.validation.calibrate.joint_fits import JointFit, load_joint_fits
from smlab.validation.calibrate.simulated import write_simulated
from smlab.validation.experiments.design.study import read_study
from smlab.validation.papers.histogram.images import read_image
from smlab.validation.tuning.space_file import read_space
from smlab.validation.work.encoding import decode, encode
from smlab.validation.work.store import Entry, Store
from whole_files import (
    CASES,
    CONSTANTS,
    KTT,
    LAUNCH,
    LISTED,
    NCU,
    NEUSIGHT,
    NOTE,
    NSYS,
    NVPROF,
    SAMPLES,
    STEPS,
    STUDY,
    STUDY_OF_CASES,
    T4,
    TIMES,
    TRUTH,
    TUNER,
    WIDE,
)

PATH_OF_STUDIES = Path(__file__).parents[2] / "examples" / "studies"


def cells(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


@dataclass(frozen=True)
class Kind:
    """A kind of file: whole ones, how it is named, and what reads it."""

    whole: tuple[Any, ...]
    name: str
    read: Callable[[Path], object]
    beside: Callable[[], dict[str, bytes]] = dict
    """Other files in the folder, whole."""

    def write_bytes(self, seed: int, folder: Path, label: str) -> Path:
        """A whole one of which bytes are changed."""
        rng = random.Random(f"{label} bytes {seed}")
        path = self.write(-1, folder, label)
        content = path.read_bytes()
        change = flipped if _is_binary(content) and rng.random() < 0.7 else mutated_bytes
        path.write_bytes(change(content, rng))
        return path

    def write(self, seed: int, folder: Path, label: str) -> Path:
        """A mutated one; seed -1 is a whole one."""
        rng = random.Random(f"{label} {seed}")
        tree = rng.choice(self.whole)
        path = folder / self.name
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path.parent / "table.npy", np.arange(4, dtype=np.float32))
        for name, content in self.beside().items():
            (folder / name).write_bytes(content)
        if isinstance(tree, bytes):
            path.write_bytes(tree if seed < 0 else flipped(tree, rng))
        elif path.suffix == ".csv":
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(tree if seed < 0 else mutated_table(tree, rng))
            path.write_text(text.getvalue())
        elif path.suffix == ".toml":
            path.write_text(toml_text(tree if seed < 0 else mutated_tree(tree, rng, null=False)))
        else:
            path.write_text(json.dumps(tree if seed < 0 else mutated_tree(tree, rng, null=True)))
        return path


def _is_binary(content: bytes) -> bool:
    return b"\0" in content or content[:2] == b"\x1f\x8b"


def read_note(path: Path) -> object:
    (path.parent / "portability.csv").write_text(
        "kernel,size,blocks,threads,samples,seconds_median\nk,1,80,256,6,0.5\nk,2,80,256,6,0.25\n"
    )
    return read_bench_folder(path.parent)


def read_encoded(path: Path) -> object:
    return decode(load_json(path))


def read_stored(path: Path) -> object:
    """A stored result with whatever content, and a checksum that fits."""
    with Store(path.with_suffix(".sqlite")) as store:
        store.add([Entry(b"k", {}, load_json(path))])
        return decode(store.get([b"k"])[b"k"].result)


def tomls(*folders: Path) -> tuple[dict[str, Any], ...]:
    return tuple(
        tomllib.loads(path.read_text()) for folder in folders for path in sorted(folder.glob("*.toml"))
    )


def stored(module: Any, name: str) -> Any:
    return json.loads(Path(module.__file__).with_name(name).read_text())


@functools.cache
def kinds() -> dict[str, Kind]:
    from smlab.models import utilization as models
    from smlab.validation import calibrate

    workloads = tuple(tree for tree in tomls(PROFILE.parent) if "kernel" in tree and "parameters" not in tree)
    boards = Path(descriptions.__file__).parent / "boards"
    fits = stored(calibrate, "joint.json")
    results = (
        encode(JointFit(**fits[0])),
        encode({"a": (1, 2.5), "b": np.arange(6.0).reshape(2, 3), "c": {1, 2}, "d": [None, True, "x"]}),
    )
    found = {
        "launch": Kind((tomllib.loads(LAUNCH + CONSTANTS),), "l.toml", read_launch),
        "program": Kind((tomllib.loads(LAUNCH + CONSTANTS + STEPS),), "p.toml", read_program),
        "workload": Kind(workloads, "w.toml", read_workload),
        "tuning-space": Kind(
            (tomllib.loads(TUNING_SPACE.read_text()),),
            "space.toml",
            read_space,
            lambda: {KERNEL.name: KERNEL.read_bytes()},
        ),
        "gpu": Kind(tomls(boards)[::5], "g.toml", lambda path: load_gpu(str(path))),
        "study": Kind((tomllib.loads(STUDY), tomllib.loads(LISTED)), "s.toml", read_study),
        "shipped-study": Kind(
            tuple(
                tree
                for path in sorted(PATH_OF_STUDIES.glob("*/study*.toml"))
                if not (tree := tomllib.loads(path.read_text()))["base"].get("workload", "").endswith(".toml")
            ),
            "s.toml",
            read_study,
        ),
        "ktt": Kind((KTT,), "k.json", read_timed_kernels),
        "kernel-tuner": Kind((TUNER, T4), "t.json", read_timed_kernels),
        "bench-note": Kind((NOTE,), "portability.json", read_note),
        "samples": Kind((cells(SAMPLES),), "s.csv", read_samples),
        "profile": Kind(tuple(map(cells, (NCU, WIDE, NVPROF))), "p.csv", read_profile),
        "counter-table": Kind((cells(PROFILE.read_text()),), "c.csv", read_profile),
        "times": Kind((cells(TIMES),), "t.csv", read_plain),
        "nsys": Kind((cells(NSYS),), "n.csv", read_nsys),
        "trust-map": Kind((stored(models, "trust_map.json"),), "m.json", TrustMap.read),
        "counter-maps": Kind((stored(models, "counter_maps.json"),), "m.json", CounterMaps.read),
        "joint-fit": Kind((fits[:2],), "j.json", load_joint_fits),
        "encoded": Kind(results, "e.json", read_encoded),
        "stored": Kind(results, "r.json", read_stored),
        "truth": Kind((cells(TRUTH),), "t.csv", lambda path: read_truth(path, load_gpu("v100"))),
        "neusight": Kind((cells(NEUSIGHT),), "linear.csv", lambda path: read_neusight(path.parent)),
        "cases": Kind((cells(CASES),), "cases.csv", read_cases),
        "service-table": Kind((cells(made("t.csv").decode()),), "t.csv", ServiceTable.read),
        "data-set-note": Kind(
            (json.loads(made("set/shared-atomics.json")),),
            "shared-atomics.json",
            lambda path: read_set(path.parent),
            lambda: {"shared-atomics.csv": made("set/shared-atomics.csv")},
        ),
        "resumed-note": Kind((json.loads(made("resume/set.json")),), "set.json", resumed, whole_run),
        "data-set": Kind(
            (cells(made("set/shared-atomics.csv").decode()),),
            "shared-atomics.csv",
            lambda path: read_set(path.parent),
            lambda: {"shared-atomics.json": made("set/shared-atomics.json")},
        ),
    }
    return found


@functools.cache
def binaries() -> dict[str, Kind]:
    """Files without a tree: their bytes are changed."""
    packed = gzip.compress(PROFILE.read_bytes(), mtime=0)
    trace = made("traces/kernel-1.traceg")
    image = np.arange(64 * 3, dtype=np.uint8).reshape(8, 8, 3)
    found = {
        "array": Kind((array_bytes(image), array_bytes(np.arange(9.0))), "a.npy", load_array),
        "arrays": Kind((archive_bytes(a=image, b=np.arange(9.0)),), "a.npz", load_arrays),
        "image": Kind((png_bytes(image),), "i.png", read_image),
        "image-array": Kind((array_bytes(image),), "i.npy", read_image),
        "packed-profile": Kind((packed,), "p.csv.gz", read_profile),
        "service-table-nc": Kind((made("t.nc"),), "t.nc", ServiceTable.read),
        "trace": Kind((trace,), "k.traceg", read_trace),
        "packed-trace": Kind((lzma.compress(trace),), "k.traceg.xz", read_trace),
        "trace-list": Kind((made("traces/kernelslist.g"),), "kernelslist.g", read_list),
        "listing": Kind((KERNEL.read_bytes(),), "k.sass", lambda path: load_kernel(path, "sm_70")),
        "regions": Kind((KERNEL.read_bytes(),), "k.sass", read_regions),
        "report": Kind((b"NVR\0" + bytes(range(256)) * 20,), "r.ncu-rep", read_profile),
        "store": Kind((made("s.sqlite"),), "s.sqlite", read_store),
        "bench-samples": Kind(
            (archive_bytes(**{"k/seconds": np.full((2, 6), 0.5)}),),
            "portability.samples.npz",
            read_samples_of,
        ),
    }
    if has_compiler():
        code = compiled((KERNEL.parent / "histogram.cu").read_text())
        found["cubin"] = Kind((code,), "k.cubin", lambda path: load_kernel(path, "sm_70"))
        found["cubin-code"] = Kind((code,), "k.cubin", read_functions)
        found["cubin-regions"] = Kind((code,), "k.cubin", read_regions)
    return found


_KEPT = tempfile.TemporaryDirectory()


@functools.cache
def made(name: str) -> bytes:
    """A file that smlab itself wrote."""
    folder = Path(_KEPT.name)
    path = folder / name
    if name.startswith("t."):
        assert run(["table", "--gpu", "v100", "--max-n", "4", "--out", str(path)]) == 0
    elif name.startswith("traces/"):
        assert run(["run", "--example", "--accel-sim", str(path.parent)]) == 0
    elif name.startswith("resume/"):
        data = data_set(path.parent, resume=False)
        data.add("a", [{"n": 1, "cycles": 5}], {"x": np.arange(4)}, {})
        data.close()
    elif name.startswith("set/"):
        write_simulated(path.parent, load_gpu("a100-40"), profile=SMALL, noise=0.0)
    else:
        with Store(path) as store:
            store.add([Entry(b"k", {"a": 1}, encode({"a": (1, 2.5)}))])
    return path.read_bytes()


def data_set(folder: Path, resume: bool) -> DataSet:
    return DataSet(folder, "set", ("n", "cycles"), {"gpu": "one", "settings": {}}, resume)


def resumed(path: Path) -> object:
    return data_set(path.parent, resume=True).done


def whole_run() -> dict[str, bytes]:
    return {name: made(f"resume/{name}") for name in ("set.csv", "set.samples.npz")}


def read_store(path: Path) -> object:
    with Store(path) as store:
        return [decode(entry.result) for entry in store.get([b"k"]).values()]


def read_samples_of(path: Path) -> object:
    (path.parent / "portability.json").write_text(json.dumps(NOTE))
    return read_note(path.parent / "portability.json")


def read_cases(path: Path) -> object:
    study = path.with_name("study.toml")
    study.write_text(STUDY_OF_CASES)
    return read_study(study)


def array_bytes(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def archive_bytes(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def png_bytes(pixels: Any) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


KINDS = (
    *(
        "launch",
        "program",
        "workload",
        "tuning-space",
        "gpu",
        "study",
        "shipped-study",
        "ktt",
        "kernel-tuner",
        "bench-note",
        "samples",
    ),
    *(
        "profile",
        "counter-table",
        "times",
        "nsys",
        "trust-map",
        "counter-maps",
        "joint-fit",
        "encoded",
        "stored",
        "truth",
        "neusight",
        "cases",
        "service-table",
        "data-set-note",
        "resumed-note",
        "data-set",
    ),
)


@dataclass(frozen=True)
class Command:
    """A command on a file of a kind; the file stands in place of `FILE`."""

    kind: str
    arguments: tuple[str, ...]


FILE = "FILE"
COMMANDS = {
    "simulate": Command("workload", ("simulate", FILE, "--gpu", "a100-40", "--max-cycles", "100000")),
    "simulate-gpu": Command("gpu", ("simulate", "atomics", "--set", "iterations=2", "--gpu", FILE)),
    "gpus": Command("gpu", ("gpus", FILE)),
    "run": Command("run-launch", ("run", "KERNEL", "--launch", FILE, "--max-cycles", "100000")),
    "utilization": Command("counter-table", ("utilization", FILE)),
    "roofline": Command("counter-table", ("roofline", FILE)),
    "project": Command("counter-table", ("project", FILE, "--to", "h100-pcie")),
    "port-ktt": Command("ktt", ("port", f"v100={FILE}", "t4=OTHER")),
    "port-tuner": Command("kernel-tuner", ("port", f"v100={FILE}", "t4=OTHER")),
    "port-times": Command("times", ("port", f"v100={FILE}", "t4=OTHER")),
    "port-nsys": Command("nsys", ("port", f"v100={FILE}", "t4=OTHER")),
    "port-tune": Command("ktt", ("port", "tune", FILE, "--from", "v100", "--to", "t4", "--budget", "2")),
    "advise": Command("samples", ("advise", FILE, "--gpu", "v100")),
}


def changed_kernel(suffix: str, rng: random.Random) -> bytes:
    if suffix == ".sass":
        return hostile_listing(KERNEL.read_text(), rng).encode(errors="surrogatepass")
    source = (KERNEL.parent / "histogram.cu").read_text()
    if suffix == ".cu":
        return hostile_source(source, rng).encode(errors="surrogatepass")
    return flipped(compiled(source), rng)


@functools.cache
def compiled(source: str) -> bytes:
    from smlab.hw_bench.sass.nvrtc import compile_cuda

    return compile_cuda(source, "sm_70")
