/* A FAKE libnvidia-ml.so.1 with two devices, for tests: the real Python binding loads it. Its devices say FAKE.
 *
 * FAKE_NVML_NO_MEMORY=CODE fails the memory of every GPU with that code; FAKE_NVML_MIG=N has the GPU N in MIG mode, with
 * two slices of 10 and 20 GiB in places 0 and 2; FAKE_NVML_NAME is the name of the GPU 0, whatever its bytes are.
 * Energy rises by 1,000 mJ with every reading; used memory by 1 MiB. FAKE_NVML_BROKEN makes those two readings fail, as
 * old GPUs do; FAKE_NVML_LOST=N loses the GPU N, as a bus does; FAKE_NVML_ENERGY_LATE fails the first reading of energy,
 * whose counter is large after it. FAKE_NVML_LOAD names a file that says what is so now, in the place of all that rises:
 * a line "millijoules bytes", written by the test as the load goes on; fake_readings() counts what was read of it.
 * fake_openings() counts how often the library was opened. Written against NVIDIA's public API reference: signatures only, no line of nvml.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES 2
#define SUCCESS 0
#define UNINITIALIZED 1
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define GPU_IS_LOST 15

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned gpu, memory; } utilization_t;

static int users, openings, readings;
static unsigned long long energy[DEVICES], used[DEVICES];
static int handles[DEVICES] = {0, 1};
static int slices[] = {10, 0, 20};
#define IS_SLICE(handle) ((int *)(handle) >= slices && (int *)(handle) < slices + 3)
#define NOT_FOUND 6

static int number_of(void *handle) { return *(int *)handle; }

int nvmlInit_v2(void) { users++; openings++; return SUCCESS; }
int nvmlInitWithFlags(unsigned flags) { (void)flags; users++; openings++; return SUCCESS; }
int fake_openings(void) { return openings; }
int fake_readings(void) { return readings; }

static int scripted(unsigned long long *millijoules, unsigned long long *bytes) {
  const char *path = getenv("FAKE_NVML_LOAD");
  FILE *file = path ? fopen(path, "r") : NULL;
  if (!file) return 0;
  int fields = fscanf(file, "%llu %llu", millijoules, bytes);
  fclose(file);
  return fields == 2;
}

int nvmlShutdown(void) { if (!users) return UNINITIALIZED; users--; return SUCCESS; }
const char *nvmlErrorString(int code) { return code == NOT_SUPPORTED ? "Not Supported" : "FAKE error"; }

int nvmlDeviceGetCount_v2(unsigned *count) {
  if (!users) return UNINITIALIZED;
  *count = DEVICES;
  return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
  if (!users) return UNINITIALIZED;
  if (index >= DEVICES) return INVALID_ARGUMENT;
  const char *lost = getenv("FAKE_NVML_LOST");
  if (lost && atoi(lost) == (int)index) return GPU_IS_LOST;
  *handle = &handles[index];
  return SUCCESS;
}

int nvmlDeviceGetName(void *handle, char *name, unsigned length) {
  const char *given = getenv("FAKE_NVML_NAME");
  if (given && number_of(handle) == 0) snprintf(name, length, "%s", given);
  else snprintf(name, length, "FAKE GPU %d", number_of(handle));
  return SUCCESS;
}

int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned length) {
  snprintf(uuid, length, "GPU-FAKE-0000-%d", number_of(handle));
  return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
  snprintf(version, length, "000.FAKE");
  return SUCCESS;
}

static int is_in_mig_mode(void *handle) {
  const char *given = getenv("FAKE_NVML_MIG");
  return given && atoi(given) == number_of(handle);
}

int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
  if (!getenv("FAKE_NVML_MIG")) return NOT_SUPPORTED;
  *current = *pending = is_in_mig_mode(handle);
  return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) {
  *count = is_in_mig_mode(handle) ? 3 : 0;
  return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **slice) {
  if (!is_in_mig_mode(handle) || index > 2 || !slices[index]) return NOT_FOUND;
  *slice = &slices[index];
  return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *handle, memory_t *memory) {
  if (getenv("FAKE_NVML_NO_MEMORY")) return atoi(getenv("FAKE_NVML_NO_MEMORY"));
  if (IS_SLICE(handle)) {
    memory->total = (unsigned long long)*(int *)handle << 30;
    memory->used = 0;
    memory->free = memory->total;
    return SUCCESS;
  }
  int number = number_of(handle);
  memory->total = (number ? 80ULL : 24ULL) << 30;
  if (getenv("FAKE_NVML_BROKEN")) return NOT_SUPPORTED;
  unsigned long long now_mj, now_bytes;
  if (scripted(&now_mj, &now_bytes)) used[number] = now_bytes;
  else used[number] += 1 << 20;
  memory->used = used[number];
  readings++;
  memory->free = memory->total - memory->used;
  return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *handle, utilization_t *rates) {
  if (getenv("FAKE_NVML_BROKEN")) return NOT_SUPPORTED;
  rates->gpu = 40 + number_of(handle);
  rates->memory = 7;
  return SUCCESS;
}

int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *celsius) {
  if (sensor || getenv("FAKE_NVML_BROKEN")) return NOT_SUPPORTED;
  *celsius = 50 + number_of(handle);
  return SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatts) {
  if (getenv("FAKE_NVML_BROKEN")) return NOT_SUPPORTED;
  *milliwatts = 200500 + number_of(handle);
  return SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *millijoules) {
  if (getenv("FAKE_NVML_BROKEN")) return NOT_SUPPORTED;
  if (getenv("FAKE_NVML_ENERGY_LATE") && energy[number_of(handle)] == 0) {
    energy[number_of(handle)] = 1ULL << 40;
    return NOT_SUPPORTED;
  }
  unsigned long long now_mj, now_bytes;
  if (scripted(&now_mj, &now_bytes)) energy[number_of(handle)] = now_mj;
  else energy[number_of(handle)] += 1000;
  *millijoules = energy[number_of(handle)];
  return SUCCESS;
}
