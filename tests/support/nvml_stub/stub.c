/* Stand-in for libnvidia-ml.so.1: answers NVML calls from a text file, for tests without hardware.
 *
 * The file is named by the environment variable NVML_STUB. It is read again by nvmlInit, by
 * nvmlDeviceGetCount and while events are awaited, so that a test can change the machine of a running process.
 * Every call appends the name of its symbol to a file beside it, with the suffix ".calls".
 *
 * One statement per line; GPU is an index from 0, and a text extends to the end of the line:
 *
 *   gpus N                       number of GPUs
 *   count N                      the number that nvmlDeviceGetCount reports, if another
 *   driver TEXT, nvml TEXT       versions
 *   cuda N                       12040 for CUDA 12.4
 *   uuid GPU TEXT, name GPU TEXT, bus GPU TEXT
 *   minor GPU N, numa GPU N, memory GPU BYTES, used GPU BYTES
 *   compute GPU MAJOR MINOR
 *   mig GPU 0|1                  without it, MIG is not supported
 *   utilization GPU PERCENT PERCENT
 *   process GPU PID BYTES        2^64-1 BYTES: not available
 *   graphics GPU PID BYTES       likewise, of a process that draws
 *   busy GPU PID PERCENT TIME    a sample of utilization, with its time in microseconds
 *   path GPU GPU LEVEL           nvmlGpuTopologyLevel_t, both ways
 *   link GPU LINK TYPE BUS       an active NVLink: nvmlIntNvLinkDeviceType_t and the bus id of the remote end
 *   down GPU LINK                an inactive NVLink
 *   error SYMBOL GPU|* CODE      nvmlReturn_t of that symbol, for one GPU or for every call
 *   xid SERIAL GPU CODE          an Xid event (GPU -1: of an unknown GPU); delivered once, and only if nvmlInit did not
 *                                see a serial number as high
 *
 * What the file does not mention is answered with NVML_ERROR_NOT_SUPPORTED.
 * -DOLD_DRIVER leaves out the symbols that drivers before R525 lack.
 */

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define MOST_GPUS 80
#define MOST_LINKS 36
#define MOST_ERRORS 256
#define MOST_XIDS 64
#define MOST_PROCESSES 16
#define LONGEST 256

enum {
  SUCCESS = 0,
  UNINITIALIZED = 1,
  INVALID_ARGUMENT = 2,
  NOT_SUPPORTED = 3,
  NOT_FOUND = 6,
  INSUFFICIENT_SIZE = 7,
  DRIVER_NOT_LOADED = 9,
  TIMEOUT = 10,
};

typedef struct {
  int state; /* 0: absent, 1: inactive, 2: active */
  int type;
  char bus[LONGEST];
} Link;

typedef struct {
  unsigned pid;
  unsigned long long bytes;
} Process;

typedef struct {
  unsigned pid, percent;
  unsigned long long time;
} Sample;

typedef struct {
  int index;
  int has_uuid, has_name, has_bus, has_minor, has_numa, has_memory, has_compute, has_mig, has_utilization;
  int has_brand, brand;
  char vbios[32];
  char uuid[LONGEST], name[LONGEST], bus[LONGEST];
  int minor, numa, major_capability, minor_capability, mig;
  unsigned busy, memory_busy;
  unsigned long long memory, used;
  Link links[MOST_LINKS];
  Process processes[MOST_PROCESSES];
  int process_count;
  Process drawing[MOST_PROCESSES];
  int drawing_count;
  Sample samples[MOST_PROCESSES];
  int sample_count;
  int registered;
} Gpu;

typedef struct {
  char symbol[64];
  int gpu; /* -1: every call */
  int code;
} Error;

typedef struct {
  long serial;
  int gpu;
  unsigned long long code;
} Xid;

typedef struct {
  int gpus, count;
  char driver[LONGEST], nvml[LONGEST];
  int cuda;
  signed char paths[MOST_GPUS][MOST_GPUS]; /* -1: none */
  Error errors[MOST_ERRORS];
  int error_count;
  Xid xids[MOST_XIDS];
  int xid_count;
} Machine;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Machine machine;
static Gpu gpus[MOST_GPUS];
static int references;
static long delivered;

static const char *config(void) {
  const char *path = getenv("NVML_STUB");
  return path && *path ? path : NULL;
}

static void copy(char *to, const char *from) {
  strncpy(to, from, LONGEST - 1);
  to[LONGEST - 1] = 0;
}

static Gpu *gpu_of(const char *word) {
  int index = atoi(word);
  return index >= 0 && index < MOST_GPUS ? &gpus[index] : NULL;
}

static void take_error(const char *rest) {
  char symbol[64], gpu[16];
  int code;
  if (machine.error_count < MOST_ERRORS && sscanf(rest, "%63s %15s %d", symbol, gpu, &code) == 3) {
    Error *error = &machine.errors[machine.error_count++];
    strcpy(error->symbol, symbol);
    error->gpu = *gpu == '*' ? -1 : atoi(gpu);
    error->code = code;
  }
}

static void take_xid(const char *rest) {
  if (machine.xid_count < MOST_XIDS) {
    Xid *xid = &machine.xids[machine.xid_count];
    if (sscanf(rest, "%ld %d %llu", &xid->serial, &xid->gpu, &xid->code) == 3) machine.xid_count++;
  }
}

static void take_gpu(const char *key, const char *rest) {
  char word[16];
  int length = 0;
  if (sscanf(rest, "%15s%n", word, &length) != 1) return;
  Gpu *gpu = gpu_of(word);
  if (!gpu) return;
  const char *value = rest + length;
  if (*value == ' ') value++;
  if (!strcmp(key, "uuid")) gpu->has_uuid = 1, copy(gpu->uuid, value);
  else if (!strcmp(key, "name")) gpu->has_name = 1, copy(gpu->name, value);
  else if (!strcmp(key, "bus")) gpu->has_bus = 1, copy(gpu->bus, value);
  else if (!strcmp(key, "minor")) gpu->has_minor = 1, gpu->minor = atoi(value);
  else if (!strcmp(key, "numa")) gpu->has_numa = 1, gpu->numa = atoi(value);
  else if (!strcmp(key, "memory")) gpu->has_memory = 1, gpu->memory = strtoull(value, NULL, 10);
  else if (!strcmp(key, "used")) gpu->used = strtoull(value, NULL, 10);
  else if (!strcmp(key, "mig")) gpu->has_mig = 1, gpu->mig = atoi(value);
  else if (!strcmp(key, "brand"))
    gpu->has_brand = sscanf(value, "%d", &gpu->brand) == 1;
  else if (!strcmp(key, "vbios"))
    sscanf(value, "%31s", gpu->vbios);
  else if (!strcmp(key, "compute"))
    gpu->has_compute = sscanf(value, "%d %d", &gpu->major_capability, &gpu->minor_capability) == 2;
  else if (!strcmp(key, "utilization"))
    gpu->has_utilization = sscanf(value, "%u %u", &gpu->busy, &gpu->memory_busy) == 2;
  else if (!strcmp(key, "process") && gpu->process_count < MOST_PROCESSES) {
    Process *process = &gpu->processes[gpu->process_count];
    if (sscanf(value, "%u %llu", &process->pid, &process->bytes) == 2) gpu->process_count++;
  } else if (!strcmp(key, "graphics") && gpu->drawing_count < MOST_PROCESSES) {
    Process *process = &gpu->drawing[gpu->drawing_count];
    if (sscanf(value, "%u %llu", &process->pid, &process->bytes) == 2) gpu->drawing_count++;
  } else if (!strcmp(key, "busy") && gpu->sample_count < MOST_PROCESSES) {
    Sample *sample = &gpu->samples[gpu->sample_count];
    if (sscanf(value, "%u %u %llu", &sample->pid, &sample->percent, &sample->time) == 3) gpu->sample_count++;
  } else if (!strcmp(key, "link") || !strcmp(key, "down")) {
    int number = -1, type = 255;
    char bus[64] = "";
    sscanf(value, "%d %d %63s", &number, &type, bus);
    if (number >= 0 && number < MOST_LINKS) {
      gpu->links[number].state = *key == 'l' ? 2 : 1;
      gpu->links[number].type = type;
      copy(gpu->links[number].bus, bus);
    }
  } else if (!strcmp(key, "path")) {
    int other = -1, level = -1;
    if (sscanf(value, "%d %d", &other, &level) == 2 && other >= 0 && other < MOST_GPUS)
      machine.paths[gpu->index][other] = machine.paths[other][gpu->index] = (signed char)level;
  }
}

/* Reads the file; returns whether there is one. A file that is being replaced is never seen half-written, because
 * tests rename a complete one to its name. */
static int reload(void) {
  const char *path = config();
  FILE *file = path ? fopen(path, "r") : NULL;
  if (!file) return 0;
  int registered[MOST_GPUS];
  for (int i = 0; i < MOST_GPUS; i++) registered[i] = gpus[i].registered;
  memset(&machine, 0, sizeof machine);
  memset(gpus, 0, sizeof gpus);
  memset(machine.paths, -1, sizeof machine.paths);
  machine.count = -1;
  for (int i = 0; i < MOST_GPUS; i++) gpus[i].index = i, gpus[i].registered = registered[i];
  char line[1024], key[32];
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    int length = 0;
    if (sscanf(line, "%31s%n", key, &length) != 1) continue;
    const char *rest = line + length;
    if (*rest == ' ') rest++;
    if (!strcmp(key, "gpus")) machine.gpus = atoi(rest);
    else if (!strcmp(key, "count")) machine.count = atoi(rest);
    else if (!strcmp(key, "driver")) copy(machine.driver, rest);
    else if (!strcmp(key, "nvml")) copy(machine.nvml, rest);
    else if (!strcmp(key, "cuda")) machine.cuda = atoi(rest);
    else if (!strcmp(key, "error")) take_error(rest);
    else if (!strcmp(key, "xid")) take_xid(rest);
    else take_gpu(key, rest);
  }
  fclose(file);
  if (machine.gpus > MOST_GPUS) machine.gpus = MOST_GPUS;
  if (machine.count < 0) machine.count = machine.gpus;
  return 1;
}

static void record(const char *symbol) {
  const char *path = config();
  char name[4096];
  if (!path || snprintf(name, sizeof name, "%s.calls", path) >= (int)sizeof name) return;
  int file = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return;
  char line[80];
  int length = snprintf(line, sizeof line, "%s\n", symbol);
  if (write(file, line, (size_t)length) != length) { /* the count is then too low, which its test reports */
  }
  close(file);
}

static int error_of(const char *symbol, const Gpu *gpu) {
  for (int i = 0; i < machine.error_count; i++) {
    const Error *error = &machine.errors[i];
    if ((!strcmp(error->symbol, symbol) || !strcmp(error->symbol, "*")) &&
        (error->gpu < 0 || (gpu && error->gpu == gpu->index)))
      return error->code;
  }
  return SUCCESS;
}

/* Records the call, locks, and returns what the call must answer before it looks at its arguments. */
static int begin(const char *symbol, const Gpu *gpu) {
  record(symbol);
  pthread_mutex_lock(&lock);
  if (!references) return UNINITIALIZED;
  if (gpu && (gpu < gpus || gpu >= gpus + machine.gpus)) return INVALID_ARGUMENT;
  return error_of(symbol, gpu);
}

static int end(int result) {
  pthread_mutex_unlock(&lock);
  return result;
}

static int text(char *to, unsigned length, const char *from) {
  if (strlen(from) >= length) return INSUFFICIENT_SIZE;
  strcpy(to, from);
  return SUCCESS;
}

#define SYSTEM(symbol, arguments, ...) \
  int symbol arguments {               \
    int result = begin(#symbol, NULL); \
    if (!result) __VA_ARGS__;          \
    return end(result);                \
  }

#define DEVICE(symbol, arguments, known, ...)        \
  int symbol arguments {                             \
    int result = begin(#symbol, gpu);                \
    if (!result && !gpu) result = INVALID_ARGUMENT;  \
    if (!result && !(known)) result = NOT_SUPPORTED; \
    if (!result) __VA_ARGS__;                        \
    return end(result);                              \
  }

/* Life cycle */

int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  record("nvmlInitWithFlags");
  pthread_mutex_lock(&lock);
  int result = reload() ? error_of("nvmlInitWithFlags", NULL) : DRIVER_NOT_LOADED;
  if (!result && !references++) {
    for (int i = 0; i < MOST_GPUS; i++) gpus[i].registered = 0;
    delivered = 0;
    for (int i = 0; i < machine.xid_count; i++)
      if (machine.xids[i].serial > delivered) delivered = machine.xids[i].serial;
  }
  return end(result);
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) {
  record("nvmlShutdown");
  pthread_mutex_lock(&lock);
  int result = references ? SUCCESS : UNINITIALIZED;
  if (references) references--;
  return end(result);
}

const char *nvmlErrorString(int code) {
  switch (code) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    default: return "Unknown Error";
  }
}

/* System */

SYSTEM(nvmlSystemGetDriverVersion, (char *version, unsigned length),
       { result = *machine.driver ? text(version, length, machine.driver) : NOT_SUPPORTED; })
SYSTEM(nvmlSystemGetNVMLVersion, (char *version, unsigned length),
       { result = *machine.nvml ? text(version, length, machine.nvml) : NOT_SUPPORTED; })
SYSTEM(nvmlSystemGetCudaDriverVersion, (int *version), {
  *version = machine.cuda;
  result = machine.cuda ? SUCCESS : NOT_SUPPORTED;
})
#ifndef OLD_DRIVER
SYSTEM(nvmlSystemGetCudaDriverVersion_v2, (int *version), {
  *version = machine.cuda;
  result = machine.cuda ? SUCCESS : NOT_SUPPORTED;
})
#endif

/* Devices */

SYSTEM(nvmlDeviceGetCount_v2, (unsigned *count), {
  result = reload() ? error_of("nvmlDeviceGetCount_v2", NULL) : DRIVER_NOT_LOADED;
  *count = (unsigned)machine.count;
})

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu **handle) {
  Gpu *gpu = index < MOST_GPUS ? &gpus[index] : NULL;
  int result = begin("nvmlDeviceGetHandleByIndex_v2", gpu);
  if (!result && !gpu) result = INVALID_ARGUMENT;
  if (!result) *handle = gpu;
  return end(result);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Gpu **handle) {
  int result = begin("nvmlDeviceGetHandleByUUID", NULL);
  if (!result) {
    result = NOT_FOUND;
    for (int i = 0; i < machine.gpus; i++)
      if (gpus[i].has_uuid && !strcmp(gpus[i].uuid, uuid)) *handle = &gpus[i], result = SUCCESS;
  }
  return end(result);
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, Gpu **handle) {
  int result = begin("nvmlDeviceGetHandleByPciBusId_v2", NULL);
  if (!result) {
    result = NOT_FOUND;
    for (int i = 0; i < machine.gpus; i++)
      if (gpus[i].has_bus && !strcasecmp(gpus[i].bus, bus)) *handle = &gpus[i], result = SUCCESS;
  }
  return end(result);
}

typedef struct {
  char legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
} PciInfo;

static void pci(PciInfo *info, const char *bus) {
  memset(info, 0, sizeof *info);
  sscanf(bus, "%x:%x:%x", &info->domain, &info->bus, &info->device);
  snprintf(info->legacy, sizeof info->legacy, "%04X:%02X:%02X.0", info->domain & 0xffff, info->bus & 0xff,
           info->device & 0xff);
  strncpy(info->bus_id, bus, sizeof info->bus_id - 1);
}

typedef struct {
  unsigned long long total, free, used;
} Memory;

typedef struct {
  unsigned version;
  unsigned long long total, reserved, free, used;
} MemoryV2;

typedef struct {
  unsigned gpu, memory;
} Utilization;

typedef struct {
  unsigned pid;
  unsigned long long bytes;
  unsigned instance, compute_instance;
} ProcessInfo;

DEVICE(nvmlDeviceGetIndex, (Gpu * gpu, unsigned *index), 1, { *index = (unsigned)gpu->index; })
DEVICE(nvmlDeviceGetMinorNumber, (Gpu * gpu, unsigned *minor), gpu->has_minor, { *minor = (unsigned)gpu->minor; })
DEVICE(nvmlDeviceGetUUID, (Gpu * gpu, char *uuid, unsigned length), gpu->has_uuid,
       { result = text(uuid, length, gpu->uuid); })
DEVICE(nvmlDeviceGetName, (Gpu * gpu, char *name, unsigned length), gpu->has_name,
       { result = text(name, length, gpu->name); })
DEVICE(nvmlDeviceGetPciInfo_v3, (Gpu * gpu, PciInfo *info), gpu->has_bus, { pci(info, gpu->bus); })
DEVICE(nvmlDeviceGetMemoryInfo, (Gpu * gpu, Memory *memory), gpu->has_memory, {
  memory->total = gpu->memory;
  memory->used = gpu->used;
  memory->free = gpu->memory - gpu->used;
})
DEVICE(nvmlDeviceGetMemoryInfo_v2, (Gpu * gpu, MemoryV2 *memory), gpu->has_memory, {
  memory->total = gpu->memory;
  memory->reserved = 0;
  memory->used = gpu->used;
  memory->free = gpu->memory - gpu->used;
})
DEVICE(nvmlDeviceGetCudaComputeCapability, (Gpu * gpu, int *major, int *minor), gpu->has_compute, {
  *major = gpu->major_capability;
  *minor = gpu->minor_capability;
})
DEVICE(nvmlDeviceGetBrand, (Gpu * gpu, int *brand), gpu->has_brand, { *brand = gpu->brand; })
DEVICE(nvmlDeviceGetVbiosVersion, (Gpu * gpu, char *version, unsigned length), *gpu->vbios,
       { result = text(version, length, gpu->vbios); })
DEVICE(nvmlDeviceGetUtilizationRates, (Gpu * gpu, Utilization *rates), gpu->has_utilization, {
  rates->gpu = gpu->busy;
  rates->memory = gpu->memory_busy;
})
static int list(const Process *from, int number, unsigned *count, ProcessInfo *infos) {
  unsigned room = *count;
  *count = (unsigned)number;
  if (room < *count || (*count && !infos)) return INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < *count; i++) infos[i] = (ProcessInfo){from[i].pid, from[i].bytes, ~0u, ~0u};
  return SUCCESS;
}

typedef struct {
  unsigned pid;
  unsigned long long time;
  unsigned sm, memory, encoder, decoder;
} UtilizationSample;

static int sampled(const Gpu *gpu, UtilizationSample *samples, unsigned *count, unsigned long long seen) {
  unsigned room = *count, found = 0;
  for (int i = 0; i < gpu->sample_count; i++) {
    if (gpu->samples[i].time <= seen) continue;
    if (samples && found < room)
      samples[found] = (UtilizationSample){gpu->samples[i].pid, gpu->samples[i].time, gpu->samples[i].percent, 0, 0, 0};
    found++;
  }
  *count = found;
  return !found ? NOT_FOUND : !samples || room < found ? INSUFFICIENT_SIZE : SUCCESS;
}

DEVICE(nvmlDeviceGetComputeRunningProcesses_v2, (Gpu * gpu, unsigned *count, ProcessInfo *infos), 1,
       { result = list(gpu->processes, gpu->process_count, count, infos); })
DEVICE(nvmlDeviceGetGraphicsRunningProcesses_v2, (Gpu * gpu, unsigned *count, ProcessInfo *infos), 1,
       { result = list(gpu->drawing, gpu->drawing_count, count, infos); })
#ifndef OLD_DRIVER
DEVICE(nvmlDeviceGetComputeRunningProcesses_v3, (Gpu * gpu, unsigned *count, ProcessInfo *infos), 1,
       { result = list(gpu->processes, gpu->process_count, count, infos); })
DEVICE(nvmlDeviceGetGraphicsRunningProcesses_v3, (Gpu * gpu, unsigned *count, ProcessInfo *infos), 1,
       { result = list(gpu->drawing, gpu->drawing_count, count, infos); })
#endif
DEVICE(nvmlDeviceGetProcessUtilization,
       (Gpu * gpu, UtilizationSample *samples, unsigned *count, unsigned long long seen), gpu->has_utilization,
       { result = sampled(gpu, samples, count, seen); })
#ifndef OLD_DRIVER
DEVICE(nvmlDeviceGetNumaNodeId, (Gpu * gpu, int *node), gpu->has_numa, { *node = gpu->numa; })
DEVICE(nvmlDeviceGetMigMode, (Gpu * gpu, unsigned *current, unsigned *pending), gpu->has_mig,
       { *current = *pending = (unsigned)gpu->mig; })
#endif

/* Links */

#define LINK(symbol, type, out, ...)                                      \
  int symbol(Gpu *gpu, unsigned number, type *out) {                      \
    int result = begin(#symbol, gpu);                                     \
    Link *link = gpu && number < MOST_LINKS ? &gpu->links[number] : NULL; \
    if (!result && (!link || !link->state)) result = INVALID_ARGUMENT;    \
    if (!result) __VA_ARGS__;                                             \
    return end(result);                                                   \
  }

LINK(nvmlDeviceGetNvLinkState, unsigned, active, { *active = link->state == 2; })
LINK(nvmlDeviceGetNvLinkVersion, unsigned, version, { *version = 3; })
LINK(nvmlDeviceGetNvLinkRemotePciInfo_v2, PciInfo, info, { pci(info, link->bus); })
#ifndef OLD_DRIVER
LINK(nvmlDeviceGetNvLinkRemoteDeviceType, unsigned, type, { *type = (unsigned)link->type; })
#endif

int nvmlDeviceGetTopologyCommonAncestor(Gpu *gpu, Gpu *other, int *level) {
  int result = begin("nvmlDeviceGetTopologyCommonAncestor", gpu);
  if (!result && (!gpu || other < gpus || other >= gpus + MOST_GPUS)) result = INVALID_ARGUMENT;
  if (!result) result = error_of("nvmlDeviceGetTopologyCommonAncestor", other);
  if (!result && machine.paths[gpu->index][other->index] < 0) result = NOT_SUPPORTED;
  if (!result) *level = machine.paths[gpu->index][other->index];
  return end(result);
}

int nvmlDeviceGetP2PStatus(Gpu *gpu, Gpu *other, int index, int *status) {
  (void)index;
  int result = begin("nvmlDeviceGetP2PStatus", gpu);
  if (!result && (!gpu || !other)) result = INVALID_ARGUMENT;
  if (!result) *status = 0;
  return end(result);
}

/* Events: of Xid errors only */

typedef struct {
  Gpu *gpu;
  unsigned long long type, data;
  unsigned instance, compute_instance;
} EventData;

#define XID_EVENT 0x8ULL

static int event_set;

SYSTEM(nvmlEventSetCreate, (void **set), { *set = &event_set; })
SYSTEM(nvmlEventSetFree, (void *set), { result = set == &event_set ? SUCCESS : INVALID_ARGUMENT; })
DEVICE(nvmlDeviceGetSupportedEventTypes, (Gpu * gpu, unsigned long long *types), 1, { *types = XID_EVENT; })

int nvmlDeviceRegisterEvents(Gpu *gpu, unsigned long long types, void *set) {
  int result = begin("nvmlDeviceRegisterEvents", gpu);
  if (!result && (!gpu || set != &event_set || types != XID_EVENT)) result = INVALID_ARGUMENT;
  if (!result) gpu->registered = 1;
  return end(result);
}

static int deliver(EventData *data) {
  for (int i = 0; i < machine.xid_count; i++) {
    Xid *xid = &machine.xids[i];
    if (xid->serial <= delivered) continue;
    if (xid->gpu >= 0 && (xid->gpu >= machine.gpus || !gpus[xid->gpu].registered)) continue;
    delivered = xid->serial;
    *data = (EventData){xid->gpu < 0 ? NULL : &gpus[xid->gpu], XID_EVENT, xid->code, ~0u, ~0u};
    return 1;
  }
  return 0;
}

int nvmlEventSetWait_v2(void *set, EventData *data, unsigned milliseconds) {
  int result = begin("nvmlEventSetWait_v2", NULL);
  if (!result && set != &event_set) result = INVALID_ARGUMENT;
  for (unsigned waited = 0; !result; waited += 10) {
    reload();
    if (deliver(data)) break;
    if (waited >= milliseconds) {
      result = TIMEOUT;
      break;
    }
    pthread_mutex_unlock(&lock);
    nanosleep(&(struct timespec){0, 10 * 1000 * 1000}, NULL);
    pthread_mutex_lock(&lock);
    if (!references) result = UNINITIALIZED;
  }
  return end(result);
}
