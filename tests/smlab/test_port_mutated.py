"""Files of times with something wrong in them, of every kind that ``smlab port`` reads: read, or refused in
one line."""

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hostile import mutated_bytes
from smlab.cli.main import run
from smlab.examples import PROFILE

MAX_S = 10.0
CONFIGS = [(size, flag) for flag in (0, 1) for size in (1, 2, 4, 8)]


def plain(folder: Path, factor: float) -> Path:
    path = folder / f"plain-{factor}.csv"
    rows = [
        f"k,{size}-{flag},{n},{size * 80},256,{factor * size}" for size, flag in CONFIGS for n in range(6)
    ]
    path.write_text("kernel,config,launch,blocks,threads_per_block,seconds\n" + "\n".join(rows) + "\n")
    return path


def nsys(folder: Path, factor: float) -> Path:
    path = folder / f"nsys-{factor}.csv"
    header = (
        "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),"
        "Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name"
    )
    rows = []
    for n in range(6):
        rows.append(
            f"{n * 100},50,1,,,,,,,,,,0.5,100,Pageable,Device,GPU (0),1,7,[CUDA memcpy Host-to-Device]"
        )
        rows += [
            f"{n * 100 + size},{factor * size * 1000:.0f},2,{size * 80},1,1,256,1,1,32,0,0,,,,,GPU (0),1,7,k"
            for size, _ in CONFIGS[:4]
        ]
    path.write_text("Processing [trace.sqlite] with cuda_gpu_trace...\n\n" + header + "\n" + "\n".join(rows))
    return path


def tuner(folder: Path, factor: float) -> Path:
    path = folder / f"cache-{factor}.json"
    cache = {
        f"{size},{flag}": {"size": size, "flag": flag, "time": factor * size, "times": [factor * size] * 6}
        for size, flag in CONFIGS
    }
    about = {"device_name": "V100", "kernel_name": "k", "tune_params_keys": ["size", "flag"]}
    path.write_text(json.dumps({**about, "cache": cache}))
    return path


def ktt(folder: Path, factor: float) -> Path:
    path = folder / f"ktt-{factor}.json"

    def result(size: int, flag: int) -> dict[str, Any]:
        shape = {"X": size * 80, "Y": 1, "Z": 1}
        computed = {
            "KernelFunction": "k",
            "Duration": factor * size,
            "GlobalSize": shape,
            "LocalSize": {"X": 64, "Y": 1, "Z": 1},
            "CompilationData": {"RegistersCount": 32, "LocalMemorySize": 0},
        }
        return {
            "Configuration": [{"Name": "SIZE", "Value": size}, {"Name": "FLAG", "Value": flag}],
            "Status": "Ok",
            "ComputationResults": [computed],
        }

    about = {"Device": "V100", "TimeUnit": "Microseconds"}
    path.write_text(json.dumps({"Metadata": about, "Results": [result(*config) for config in CONFIGS]}))
    return path


def profile(folder: Path, factor: float) -> Path:
    path = folder / f"profile-{factor}.csv"
    path.write_bytes(PROFILE.read_bytes())
    return path


def bench(folder: Path, factor: float) -> Path:
    path = folder / f"bench-{factor}"
    path.mkdir()
    rows = [f"k,{flag},{size * 80},256,6,{factor * size}" for size, flag in CONFIGS]
    header = "kernel,size,blocks,threads,samples,seconds_median"
    (path / "portability.csv").write_text("\n".join([header, *rows]) + "\n")
    note = {"gpu": "V100", "machine_code": {"k": {"registers": 32, "static_shared_bytes": 1024}}}
    (path / "portability.json").write_text(json.dumps(note))
    np.savez(path / "portability.samples.npz", **{"k/seconds": np.full((len(CONFIGS), 6), factor)})
    return path


KINDS = (plain, nsys, tuner, ktt, profile, bench)
EACH = 4


@pytest.mark.parametrize(
    "seeds", [range(EACH), pytest.param(range(EACH, 338), marks=pytest.mark.thorough)], ids=["few", "2000"]
)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_mutated_times_are_read_or_refused_in_one_line(
    kind: Callable[[Path, float], Path], seeds: range, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = kind(tmp_path, 1.0), kind(tmp_path, 0.8)
    broken = bad
    if bad.is_dir():
        broken = bad / "portability.csv"
    whole = broken.read_bytes()
    for seed in seeds:
        rng = random.Random(seed)
        if bad.is_dir():
            broken = bad / rng.choice(["portability.csv", "portability.samples.npz", "portability.json"])
            whole = broken.read_bytes()
        broken.write_bytes(mutated_bytes(whole, rng))
        capsys.readouterr()
        began = time.process_time()
        tuned = kind in (tuner, ktt) and seed % 3 == 0
        gpus = ["--from", "a100-40", "--to", "v100"]
        arguments = [f"a100-40={good}", f"v100={bad}"]
        if tuned:
            replayed = [str(good), "--truth", str(bad), "--seeds", "1"] if seed % 2 else [str(bad)]
            arguments = ["tune", *replayed, *gpus, "--budget", "3"]
        status = run(["port", *arguments])
        told = capsys.readouterr().err
        broken.write_bytes(whole)
        assert time.process_time() - began < MAX_S, seed
        assert status in (0, 2), (seed, told)
        assert "Traceback" not in told, (seed, told)
        if status == 2:
            assert [line.startswith("smlab: ") for line in told.splitlines()].count(True) == 1, (seed, told)
