/* A stand-in for NVIDIA's management library: the queries that the benchmarks make, under the names that pynvml looks for. */
#define CLOSED 1 /* NVML_ERROR_UNINITIALIZED */
#include "forward.h"

F1(nvmlInitWithFlags, U)
F0(nvmlInit_v2)
F2(nvmlSystemGetDriverVersion, P, U)
F1(nvmlDeviceGetCount_v2, P)
F2(nvmlDeviceGetHandleByIndex_v2, U, P)
F2(nvmlDeviceGetHandleByUUID, P, P)
F2(nvmlDeviceGetHandleByPciBusId_v2, P, P)
F3(nvmlDeviceGetUUID, P, P, U)
F3(nvmlDeviceGetEccMode, P, P, P)
F3(nvmlDeviceGetMigMode, P, P, P)
F2(nvmlDeviceGetPersistenceMode, P, P)
F2(nvmlDeviceGetComputeMode, P, P)
F2(nvmlDeviceGetPowerManagementLimit, P, P)
F2(nvmlDeviceGetPowerUsage, P, P)
F3(nvmlDeviceGetTemperature, P, U, P)
F3(nvmlDeviceGetClockInfo, P, U, P)
F3(nvmlDeviceGetMaxClockInfo, P, U, P)
F3(nvmlDeviceGetApplicationsClock, P, U, P)
F2(nvmlDeviceGetCurrentClocksThrottleReasons, P, P)
F3(nvmlDeviceGetComputeRunningProcesses_v3, P, P, P)
