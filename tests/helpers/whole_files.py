"""Small whole files of the kinds that we read, as trees and as text."""

LAUNCH = """
[launch]
grid = 2
block = [64, 1, "32 // 32"]
shared_bytes = 1024
check_shared = true
[[argument]]
name = "pixels"
dtype = "uint8"
shape = [20, 30]
make = "uniform"
low = 0
high = 256
seed = 3
[[argument]]
name = "bins"
dtype = "int32"
shape = 256
make = "zeros"
returned = true
[[argument]]
name = "n"
dtype = "int32"
value = 600
"""
CONSTANTS = """
[constant.weights]
dtype = "float32"
value = [[1.5, 2.5], [3.0, 4]]
[constant.table]
file = "table.npy"
[constant.ramp]
dtype = "int16"
make = "arange"
shape = [8, 8]
"""
STEPS = """
[[step]]
kernel = "h.sass"
name = "histogram"
arguments = ["pixels", "bins", "n"]
repeat = 3
[[step]]
kernel = "h.sass"
grid = [1, "4 - 2"]
block = 32
shared_bytes = 0
arguments = ["bins", 256, 1.5, true]
options = { flags = "-w", TILE = 2 }
"""
SHAPE = {"X": 80, "Y": 1, "Z": 1}
KTT = {
    "Metadata": {"Device": "Tesla V100", "TimeUnit": "Microseconds", "GlobalSizeType": "CUDA"},
    "Results": [
        {
            "Configuration": [{"Name": "SIZE", "Value": size}, {"Name": "FLAG", "Value": "on"}],
            "Status": "Ok",
            "ComputationResults": [
                {
                    "KernelFunction": "k",
                    "Duration": 12.5 * size,
                    "GlobalSize": SHAPE,
                    "LocalSize": {"X": 64, "Y": 1, "Z": 1},
                    "CompilationData": {"RegistersCount": 32, "LocalMemorySize": 0, "PrivateMemorySize": 0},
                    "ProfilingData": {"Counters": [{"Name": "dram__sectors_read.sum", "Value": 1000 * size}]},
                }
            ],
        }
        for size in (1, 2, 4)
    ],
}
TUNER = {
    "device_name": "Tesla V100",
    "kernel_name": "k",
    "time_unit": "milliseconds",
    "tune_params_keys": ["block_size_x", "flag"],
    "cache": {
        f"{size},0": {"block_size_x": size, "flag": 0, "time": 2.0 * size, "times": [2.0 * size] * 3}
        for size in (32, 64, 128)
    },
}
T4 = {
    "schema_version": "1.0.0",
    "metadata": {"timeunit": "milliseconds", "device_name": "Tesla V100", "kernel_name": "k"},
    "results": [
        {
            "configuration": {"block_size_x": size, "flag": 0},
            "times": {"compilation_time": 1, "runtimes": [2.0 * size] * 3},
            "invalidity": "correct",
        }
        for size in (32, 64, 128)
    ],
}
NOTE = {"gpu": "V100", "machine_code": {"k": {"registers": 32, "static_shared_bytes": 1024}}}
STUDY = """
title = "drawn"
question = "What if?"
responses = ["cycles", "stalls"]
[base]
gpu = "titan-v"
workload = "histogram"
set.pixels = 4096
set.sms = 1
[factors]
threads = [32, 64]
"gpu.dram.latency_cycles" = { log_range = [300, 1000], levels = 3 }
blocks_per_sm = { range = [1, 2], levels = 2 }
[design]
kind = "grid"
replications = 10
seed = 7
[stop]
response = "cycles"
of = "ratio"
half_width = 0.5
most_replications = 20
"""
LISTED = """
title = "listed"
responses = ["wait"]
base.model = "mm1-run"
factors.arrival_rate = [0.1, 0.5]
factors.service_rate = { distribution = "normal", mean = 2, sd = 0.1, low = 1.5, high = 3 }
design.kind = "sobol"
design.samples = 16
"""
SAMPLES = """#,Address,Source,Line,Instructions Executed,Avg. Threads Executed,stall_selected,stall_long_sb
0,0x0,"LDG.E R0, [R2]",7,10,32,5,0
1,0x10,"FADD R1, R0, R0",8,10,32,5,90
2,0x20,EXIT,9,10,32,5,0
"""
TIMES = "kernel,config,launch,blocks,threads_per_block,seconds\n" + "".join(
    f"k,{size},{n},{size * 80},256,{size}e-3\n" for size in (1, 2, 4) for n in range(3)
)
NSYS = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),"
    "Device,Name\n" + "".join(f"{n},{n + 5},2,{n * 80},1,1,256,1,1,32,0,0,GPU (0),k\n" for n in (1, 2, 4))
)
NCU = """"ID","Process ID","Kernel Name","Context","Stream","Device","CC","Section Name","Metric Name",\
"Metric Unit","Metric Value"
"0","1","k(int *)","1","7","0","7.0","Command line","gpu__time_duration.sum","nsecond","1,234"
"0","1","k(int *)","1","7","0","7.0","Command line","dram__bytes_read.sum","Kbyte","5.5"
"1","1","k(int *)","1","7","0","7.0","Command line","gpu__time_duration.sum","nsecond","2,234"
"""
WIDE = """"ID","Kernel Name","Device","CC","launch__grid_size","gpu__time_duration.sum","dram__bytes_read.sum"
"","","","","","ns","byte"
"0","k","0","7.0","80","1234","5500"
"1","k","0","7.0","160","2234","6500"
"""
NVPROF = """"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"
"Tesla V100-PCIE-32GB (0)","f(int*, int)",2,"achieved_occupancy","Achieved Occupancy",0.5,0.5,0.500000
"Tesla V100-PCIE-32GB (0)","f(int*, int)",2,"dram_read_throughput","Throughput",1GB/s,2GB/s,1.5GB/s
"""
TRUTH = "kernel,launch,seconds\nk,0,0.5\nk,1,0.25\nother(int),0,1e-3\n"
NEUSIGHT = (
    "OPName,Latency,Device,Kernel Name,Grid x,Grid y,Grid z,Block x,Block y,Block z,B,M,N,K\n"
    "linear,1.5,Tesla V100-PCIE-32GB,volta_sgemm_128x64_tn,20,16,2,128,1,1,1,1024,2560,768\n"
    "linear,0.5,Tesla V100-PCIE-32GB,volta_sgemm_128x64_tn,20,16,1,128,1,1,1,1024,1280,768\n"
)
CASES = "arrival_rate,service_rate\n0.1,2\n0.5,1.75\n"
STUDY_OF_CASES = """
title = "listed"
responses = ["wait"]
base.model = "mm1-run"
factors.arrival_rate = [0.1, 0.5]
factors.service_rate = { distribution = "normal", mean = 2, sd = 0.1, low = 1.5, high = 3 }
design.kind = "listed"
design.cases = "cases.csv"
"""
TUNED_TRITON = """
import triton
import triton.language as tl

few, many = triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 512}, num_warps=8)

@triton.autotune(configs=[few, many], key=["n"])
@triton.jit
def doubled(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)
"""
