"""Run a pack of launches on the GPU at hand: ``python replay.py PACK.zip OUT.jsonl``.

It needs Python, NumPy and NVIDIA's driver, and nothing of ours: the machine with the GPU may have no network.
One line of JSON a launch, as it comes: the time of the first launch, of a series with the arrays in L2, of
many in one go, and of some after L2 was overwritten; clocks; a checksum of each array after the first launch,
and the contents that the pack asks for. A launch that fails or hangs ends its process; the next process goes
on behind it. ``--ncu NAMES`` launches those of a file alone, once each between the profiler's marks.

A series is queued behind writes to memory, so that the GPU never waits for the host between two launches.
"""

from __future__ import annotations

import argparse
import base64
import ctypes
import fnmatch
import importlib
import json
import lzma
import os
import signal
import struct
import sys
import time
import traceback
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

CHUNK: Final = 1 << 20
"""Random numbers drawn at a time, as launch files draw them."""
FLUSH_BYTES: Final = 256 << 20
"""Written to empty L2: five times the largest."""
FLUSH_S: Final = 8e-5
"""That one such write takes at least."""
HOST_S: Final = 15e-6
"""That the host takes to queue a launch and its events, at most."""
SHORT_S: Final = 2e-4
"""A launch below this is queued behind writes to memory."""
MOST_LAUNCHES: Final = 400
KEPT_BYTES: Final = 1 << 17
SUMMED_BYTES: Final = 128 << 20
CLEAN_BYTES: Final = 8 << 20
CLOCK: Final = "the clock of the SMs"
"""Name of a launch of one block that gives four words: the SM's clock at begin and end (in their low halves),
and the global timer, in nanoseconds, at begin and end."""
PATIENCE_S: Final = 12.0
"""Without a new line: the launch hangs."""
_LOST: Final = ("ILLEGAL", "LAUNCH_FAILED", "TIMEOUT", "CONTEXT", "ASSERT", "HARDWARE", "PC", "MISALIGNED")
"""Errors after which the driver answers no more."""
_CLUSTER, _COOPERATIVE = 4, 2
_REGISTERS, _LOCAL_BYTES, _DYNAMIC_SHARED, _LARGE_CLUSTERS = 4, 3, 8, 14


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint32 * 16))


class _Config(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


class Card:
    """The driver's functions on the first GPU: ``card("cuInit", 0)``; `RuntimeError` names one that fails."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self("cuInit", 0)
        device, context, self.stream = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self("cuDeviceGet", ctypes.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("cuCtxSetCurrent", context)
        self("cuStreamCreate", ctypes.byref(self.stream), 0)
        self.modules: dict[str, ctypes.c_void_p] = {}
        self.made: dict[str, NDArray[Any]] = {}
        self.events = [self._event() for _ in range(2 * MOST_LAUNCHES)]
        self.clock: LoadedLaunch | None = None
        self._nvml: Any = None
        self._room, self._value = self.allocate(FLUSH_BYTES), 0
        try:
            library = importlib.import_module("pynvml")
            library.nvmlInit()
            self._nvml, self._handle = library, library.nvmlDeviceGetHandleByIndex(0)
        except Exception as error:  # the package or the driver's library is not there
            print("clocks are not told:", error, file=sys.stderr)

    def __call__(self, name: str, *arguments: Any) -> None:
        status = getattr(self.library, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(status, ctypes.byref(text))
            raise RuntimeError(f"{name}: {text.value.decode() if text.value else status}")

    def _event(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        self("cuEventCreate", ctypes.byref(event), 0)
        return event

    def allocate(self, size_bytes: int) -> int:
        address = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size_bytes, 256)))
        return int(address.value)

    def put(self, address: int, content: NDArray[np.uint8] | None, size_bytes: int) -> None:
        """Copy to the card; zeros where ``content`` is None."""
        size = ctypes.c_size_t(max(size_bytes, 1))
        if content is None:
            self("cuMemsetD8_v2", ctypes.c_uint64(address), 0, size)
        else:
            host = content.ctypes.data_as(ctypes.c_void_p)
            self("cuMemcpyHtoD_v2", ctypes.c_uint64(address), host, size)

    def get(self, address: int, size_bytes: int) -> bytes:
        content = np.empty(size_bytes, np.uint8)
        host = content.ctypes.data_as(ctypes.c_void_p)
        self("cuMemcpyDtoH_v2", host, ctypes.c_uint64(address), ctypes.c_size_t(size_bytes))
        return content.tobytes()

    def free(self, address: int) -> None:
        self.library.cuMemFree_v2(ctypes.c_uint64(address))

    def flush(self) -> None:
        """Queue a write that leaves nothing else in L2."""
        self._value = (self._value + 1) % 251
        size = ctypes.c_size_t(FLUSH_BYTES)
        self("cuMemsetD8Async", ctypes.c_uint64(self._room), self._value, size, self.stream)

    def read(self) -> None:
        """Queue copies that leave little but clean lines of other data in L2."""
        step, end = CLEAN_BYTES, FLUSH_BYTES
        for at in range(step, end, step):
            places = ctypes.c_uint64(self._room), ctypes.c_uint64(self._room + at)
            self("cuMemcpyDtoDAsync_v2", *places, ctypes.c_size_t(step), self.stream)

    def wait(self) -> None:
        self("cuStreamSynchronize", self.stream)

    def record(self, number: int) -> None:
        self("cuEventRecord", self.events[number], self.stream)

    def seconds(self, begin: int, end: int) -> float:
        found = ctypes.c_float()
        self("cuEventElapsedTime", ctypes.byref(found), self.events[begin], self.events[end])
        return round(found.value * 1e-3, 10)

    def attribute(self, function: ctypes.c_void_p, number: int) -> int:
        found = ctypes.c_int()
        self("cuFuncGetAttribute", ctypes.byref(found), number, function)
        return found.value

    def clocks(self) -> dict[str, float]:
        """Clocks in MHz, power in watts, and the bits of what holds the card back; -1: not told."""
        if self._nvml is None:
            return {}
        library = self._nvml

        def ask(name: str, *more: Any) -> float:
            try:
                return float(getattr(library, name)(self._handle, *more))
            except Exception:  # each query by itself: a driver need not serve all
                return -1.0

        return {
            "sm": ask("nvmlDeviceGetClockInfo", library.NVML_CLOCK_SM),
            "mem": ask("nvmlDeviceGetClockInfo", library.NVML_CLOCK_MEM),
            "watts": ask("nvmlDeviceGetPowerUsage") / 1000,
            "held": ask("nvmlDeviceGetCurrentClocksEventReasons"),
            "temp": ask("nvmlDeviceGetTemperature", 0),
        }


class LoadedLaunch:
    """A row of a pack on the card: its arrays there, its parameters with the card's addresses."""

    def __init__(self, card: Card, pack: zipfile.ZipFile, row: dict[str, Any]) -> None:
        self.card, self.row, self._pack = card, row, pack
        self.function = self._function()
        self.addresses: list[int] = []
        self._contents: list[NDArray[np.uint8] | None] = []
        for array in row["arrays"]:
            self.addresses.append(0 if array is None else card.allocate(array["bytes"]))
            self._contents.append(None if array is None else self._content(array))
        for array, content in zip(row["arrays"], self._contents, strict=True):
            for at, to, offset in (array or {}).get("relocations", ()):
                assert content is not None
                content[at : at + 8].view("<u8")[:] = self.addresses[to] + offset
        self._parameters = bytearray.fromhex(row["content"]) or bytearray(1)
        for at, to, offset in row["relocations"]:
            struct.pack_into("<Q", self._parameters, at, self.addresses[to] + offset)
        begin = ctypes.addressof((ctypes.c_char * len(self._parameters)).from_buffer(self._parameters))
        places = [begin + at for at, _ in row["params"]]
        self._pointers = (ctypes.c_void_p * max(1, len(places)))(*places)
        self._attributes = (_Attribute * 2)()
        self._config = _Config(*row["grid"], *row["block"], row["shared"], card.stream, self._attributes, 0)
        if row["cluster"]:
            self._ask(_CLUSTER, row["cluster"])
        if row["cooperative"]:
            self._ask(_COOPERATIVE, [1])

    def _ask(self, number: int, values: list[int]) -> None:
        attribute = self._attributes[self._config.count]
        attribute.id = number
        attribute.value[: len(values)] = values
        self._config.count += 1

    def _blob(self, digest: str) -> bytes:
        return lzma.decompress(self._pack.read("blob/" + digest))

    def _function(self) -> ctypes.c_void_p:
        card, row = self.card, self.row
        if row["cubin"] not in card.modules:
            module = ctypes.c_void_p()
            card("cuModuleLoadData", ctypes.byref(module), self._blob(row["cubin"]))
            card.modules[row["cubin"]] = module
        module, function = card.modules[row["cubin"]], ctypes.c_void_p()
        card("cuModuleGetFunction", ctypes.byref(function), module, row["kernel"].encode())
        if row["shared"]:
            card.library.cuFuncSetAttribute(function, _DYNAMIC_SHARED, row["shared"])
        if np.prod(row["cluster"] or row["compiled_cluster"]) > 8:
            card("cuFuncSetAttribute", function, _LARGE_CLUSTERS, 1)
        for name, digest in row["constants"].items():
            place, size, content = ctypes.c_uint64(), ctypes.c_size_t(), self._blob(digest)
            card("cuModuleGetGlobal_v2", ctypes.byref(place), ctypes.byref(size), module, name.encode())
            card.put(place.value, np.frombuffer(content, np.uint8), len(content))
        return function

    def _content(self, array: dict[str, Any]) -> NDArray[np.uint8] | None:
        if array.get("zeros"):
            return None
        if "tile" in array:
            return np.resize(np.frombuffer(self._blob(array["tile"]), np.uint8), array["bytes"])
        if "blob" in array:
            return np.frombuffer(bytearray(self._blob(array["blob"])), np.uint8)
        key, made = json.dumps([array["row"], array["bytes"]], sort_keys=True), self.card.made
        if key not in made:
            if sum(one.nbytes for one in made.values()) > 4 << 30:
                made.clear()
            made[key] = made_array(array["row"], array["bytes"])
        return made[key].view(np.uint8)

    def resident_blocks(self) -> int:
        found, threads = ctypes.c_int(), int(np.prod(self.row["block"]))
        name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        shared = ctypes.c_size_t(self.row["shared"])
        self.card(name, ctypes.byref(found), self.function, threads, shared)
        return found.value

    def fill(self) -> None:
        """Give all arrays the contents of the pack."""
        for array, address, content in zip(self.row["arrays"], self.addresses, self._contents, strict=True):
            if array is not None:
                self.card.put(address, content, array["bytes"])

    def reset(self) -> None:
        """Queue zeros for the arrays that must be zero before each launch: counters by which blocks take
        their work."""
        for array, address in zip(self.row["arrays"], self.addresses, strict=True):
            if array is not None and array["name"] in self.row["more"].get("reset", ()):
                size = ctypes.c_size_t(array["bytes"])
                self.card("cuMemsetD8Async", ctypes.c_uint64(address), 0, size, self.card.stream)

    def launch(self) -> None:
        config = ctypes.byref(self._config)
        self.card("cuLaunchKernelEx", config, self.function, self._pointers, None)

    def results(self) -> dict[str, str]:
        """What the pack asks back, packed."""
        return {
            array["name"]: base64.b64encode(zlib.compress(self.card.get(address, array["bytes"]))).decode()
            for array, address in zip(self.row["arrays"], self.addresses, strict=True)
            if array is not None and array["keep"] and array["bytes"] <= KEPT_BYTES
        }

    def sums(self) -> dict[str, int]:
        return {
            array["name"]: zlib.crc32(self.card.get(address, array["bytes"]))
            for array, address in zip(self.row["arrays"], self.addresses, strict=True)
            if array is not None and array["bytes"] <= SUMMED_BYTES
        }

    def free(self) -> None:
        for address in self.addresses:
            if address:
                self.card.free(address)

    def hold(self, launches: int) -> None:
        """Keep the GPU busy while the host queues so many launches, then launch some untimed."""
        for _ in range(min(60, 2 + int(launches * HOST_S / FLUSH_S))):
            self.card.flush()
        for _ in range(3):
            self.launch()

    def series(self, count: int, before: Callable[[], None] | None = None) -> list[float]:
        """Seconds of so many launches, each between two events."""
        for number in range(count):
            self.reset()
            if before is not None:
                before()
            self.card.record(2 * number)
            self.launch()
            self.card.record(2 * number + 1)
        self.card.wait()
        return [self.card.seconds(2 * number, 2 * number + 1) for number in range(count)]

    def in_one_go(self, count: int) -> float:
        """Seconds of a launch, of many between two events."""
        self.card.record(0)
        for _ in range(count):
            self.launch()
        self.card.record(1)
        self.card.wait()
        return self.card.seconds(0, 1) / count


def measured(one: LoadedLaunch, seconds: float) -> dict[str, Any]:
    """All that is told of a launch, in about ``seconds`` of the card's time."""
    card, row = one.card, one.row
    out: dict[str, Any] = {}
    one.fill()
    out["first_s"] = one.series(1)[0]
    out["digests"], out["kept_first"] = one.sums(), one.results()
    long = max(sorted(one.series(3))[1], 2e-6)
    if any(array and array["keep"] for array in row["arrays"]):
        one.fill()
        one.launch()
        card.wait()
        out["kept"] = one.results()
        one.fill()
    count = max(3, min(row["reps"], MOST_LAUNCHES, int(seconds / long)))
    one.series(max(1, min(count, int(0.05 / long))))
    out["clock_before"] = card.clocks()
    short = long < SHORT_S
    if short:
        one.hold(count)
    out["warm_s"] = one.series(count)
    out["clock_after"] = card.clocks()
    if card.clock is not None:
        out["measured_mhz"] = _clock_behind(one, card.clock, max(1, min(count, int(0.02 / long))))
    if not row["more"].get("reset"):
        many = max(2, min(MOST_LAUNCHES // 2, int(seconds / 2 / long)))
        if short:
            one.hold(many)
        out["back_to_back_s"] = one.in_one_go(many)
    out["flushed_s"] = one.series(max(2, min(12, int(seconds / 3 / (long + 2e-4)))), card.flush)
    out["clean_s"] = one.series(max(2, min(5, int(seconds / 6 / (long + 4e-4)))), card.read)
    out["clock_end"] = card.clocks()
    return out


def _clock_behind(one: LoadedLaunch, clock: LoadedLaunch, count: int) -> float:
    """The SMs' clock in MHz right behind so many launches, before it can change."""
    for _ in range(count):
        one.reset()
        one.launch()
    clock.launch()
    one.card.wait()
    words = np.frombuffer(one.card.get(clock.addresses[0], 32), np.uint64)
    cycles = (int(words[1]) - int(words[0])) & 0xFFFFFFFF
    return round(1e3 * cycles / (int(words[3]) - int(words[2])), 1)


def made_array(row: dict[str, Any], size_bytes: int) -> NDArray[Any]:
    """The array that a row of a launch file makes, value by value the same."""
    kind = np.dtype(row["dtype"])
    count = size_bytes // kind.itemsize
    if row["make"] == "zeros":
        return np.zeros(count, kind)
    if row["make"] == "arange":
        return np.arange(count).astype(kind)
    low, high = row.get("low", 0), row.get("high", 1)
    generator = np.random.default_rng(row.get("seed", 0))
    if kind.kind != "f":
        generator.bit_generator.advance(count)  # type: ignore[attr-defined]
    made = np.empty(count, dtype=kind)
    for at in range(0, count, CHUNK):
        size = min(CHUNK, count - at)
        drawn: NDArray[Any]
        if kind.kind == "f":
            drawn = generator.random(size) * (high - low) + low
        else:
            wide = np.uint64 if kind.str == "<u8" else np.int64
            drawn = generator.integers(low, high, size=size, dtype=wide)
        made[at : at + size] = drawn
    return made


def _rows(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of the pack; the program ends with status 2 and one line where it cannot be read."""
    try:
        with zipfile.ZipFile(options.pack) as pack:
            rows: list[dict[str, Any]] = json.loads(pack.read("items.json"))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        print(f"{options.pack}: is no pack of launches ({error})", file=sys.stderr)
        sys.exit(2)
    return rows


def _work(options: argparse.Namespace) -> bool:
    """Launch what the pack has and the file of results has not; False where the driver answers no more."""
    rows = _rows(options)
    pack = zipfile.ZipFile(options.pack)
    clock = next((row for row in rows if row["name"] == CLOCK), None)
    if options.ncu:
        names = options.ncu.read_text().split("\n")
        rows = [row for row in rows if any(name and fnmatch.fnmatchcase(row["name"], name) for name in names)]
    done = _done(options)
    card = Card()
    if clock is not None:
        card.clock = LoadedLaunch(card, pack, clock)
        card.clock.fill()
    with options.out.open("a", buffering=1) as out:
        for row in rows:
            if row["name"] in done:
                continue
            if options.limit and time.time() - options.began > options.limit:
                break
            out.write(json.dumps({"name": row["name"], "began": True}) + "\n")
            found = _told(card, pack, row, options)
            out.write(json.dumps({"name": row["name"], "group": row["group"], **found}) + "\n")
            if any(word in found.get("error", "") for word in _LOST):
                return False
    return True


def _done(options: argparse.Namespace) -> set[str]:
    """Launches that have begun in an earlier process."""
    if not options.out.exists():
        return set()
    return {json.loads(line)["name"] for line in options.out.read_text().splitlines()}


def _told(
    card: Card, pack: zipfile.ZipFile, row: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """What a launch came to; its error where it failed."""
    began = time.time()
    try:
        one = LoadedLaunch(card, pack, row)
        try:
            found = {
                "registers": card.attribute(one.function, _REGISTERS),
                "local_bytes": card.attribute(one.function, _LOCAL_BYTES),
                "resident_blocks": one.resident_blocks(),
            }
            if options.ncu:
                one.fill()
                for mark in (None, None, "cuProfilerStart", "cuProfilerStop"):
                    if mark:
                        card(mark)
                    if mark != "cuProfilerStop":
                        one.reset()
                        one.launch()
                        card.wait()
            else:
                found |= measured(one, options.seconds)
        finally:
            one.free()
    except Exception as error:  # of the driver, or of a pack that is damaged: told, and the next is run
        print("FAILED", row["name"], error, file=sys.stderr, flush=True)
        return {"error": repr(error)[:300]}
    return {**found, "took_s": round(time.time() - began, 3)}


def _watched(options: argparse.Namespace) -> None:
    """Work in a process that may be lost, and again behind the launch that lost it. A process that has begun
    with no launch is not followed by another: there is no GPU, or no driver."""
    _rows(options)
    while not (options.limit and time.time() - options.began > options.limit):
        before = _done(options)
        worker, size, since = os.fork(), -1, time.time()
        if worker == 0:
            os._exit(_status_of(options))
        while not (ended := os.waitpid(worker, os.WNOHANG))[0]:
            time.sleep(0.1)
            now = options.out.stat().st_size if options.out.exists() else 0
            if now != size:
                size, since = now, time.time()
            elif time.time() - since > PATIENCE_S:
                print("a launch hangs", file=sys.stderr, flush=True)
                os.kill(worker, signal.SIGKILL)
        if ended[1] == 0:
            return
        if _done(options) == before:
            sys.exit(1)
        print("goes on behind a launch that failed", file=sys.stderr, flush=True)


def _status_of(options: argparse.Namespace) -> int:
    """Work in this new process: 0 when all is done, 1 when the driver is lost."""
    try:
        return 0 if _work(options) else 1
    except OSError as error:
        print(f"no launch was begun: {error}; NVIDIA's driver and a GPU are needed", file=sys.stderr)
    except BaseException:  # whatever it is, the child ends here and not in its parent's code
        traceback.print_exc()
    return 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pack", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=0.12, help="of the card's time, a launch")
    parser.add_argument("--limit", type=float, default=0, help="seconds of all launches; 0: none")
    parser.add_argument("--ncu", type=Path, help="a file of names (with * and ?), each launched once")
    options = parser.parse_args()
    options.began = time.time()
    (_work if options.ncu else _watched)(options)


if __name__ == "__main__":
    main()
