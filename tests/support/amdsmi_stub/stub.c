/* Stand-in for libamd_smi.so: answers AMD SMI calls from a text file, for tests without hardware.
 *
 * The file is named by the environment variable AMDSMI_STUB. As the real library, it lists the GPUs that were there when it
 * was initialised; values and errors are read again by amdsmi_get_socket_handles.
 *
 * One statement per line; GPU is the number of a gpu statement, from 0, and a text extends to the end of the line:
 *
 *   gpu SOCKET KEY                  one GPU or partition; KEY names it when statements change
 *   uuid KEY TEXT, model KEY TEXT, driver KEY TEXT, compute KEY TEXT, memory_mode KEY TEXT
 *   bdf KEY DOMAIN BUS DEVICE FUNCTION   (hexadecimal)
 *   vram KEY BYTES, used KEY BYTES, busy KEY PERCENT, numa KEY N, type KEY N
 *   ecc KEY CORRECTABLE UNCORRECTABLE
 *   pages KEY N, threshold KEY N
 *   link KEY KEY TYPE WEIGHT HOPS   both ways
 *   error SYMBOL KEY|* CODE         the result of that symbol, for one GPU or for every call
 *
 * What the file does not mention is not supported. -DOLD_ROCM leaves out functions that ROCm 5.7 lacks; -DLONG_TEXTS has the
 * longer structures of ROCm 7.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_GPUS 64
#define MOST_ERRORS 64
#define MOST_LINKS 4096
#define LONGEST 200
#ifdef LONG_TEXTS
#define STRING 256
#else
#define STRING 64
#endif

enum { OK = 0, INVAL = 1, NOT_SUPPORTED = 2, NOT_FOUND = 31, NOT_INIT = 32, DRIVER_NOT_LOADED = 34 };

typedef struct {
  int socket, type, present;
  char key[LONGEST], uuid[LONGEST], model[LONGEST], driver[LONGEST], compute[LONGEST], memory_mode[LONGEST];
  int has_uuid, has_model, has_driver, has_compute, has_memory_mode, has_bdf, has_vram, has_used, has_busy, has_numa, has_ecc, has_pages, has_threshold;
  unsigned bdf[4], busy, numa, pages, threshold;
  unsigned long long vram, used, ecc[2];
} Gpu;

typedef struct { char market_name[STRING]; uint32_t vendor_id; char vendor_name[STRING]; uint64_t device_id; uint32_t rest[40]; } AsicInfo;
typedef struct { char driver_version[STRING]; char driver_date[STRING]; char driver_name[STRING]; } DriverInfo;
typedef struct { uint32_t gfx, umc, mm, reserved[13]; } EngineUsage;
typedef struct { uint64_t correctable, uncorrectable, deferred, reserved[5]; } ErrorCount;

static Gpu gpus[MOST_GPUS];
static int gpu_count, initialised;
static struct { char symbol[LONGEST], key[LONGEST]; int code; } errors[MOST_ERRORS];
static int error_count;
static struct { char a[LONGEST], b[LONGEST]; unsigned type; unsigned long long weight, hops; } links[MOST_LINKS];
static int link_count;

static Gpu *named(const char *key) {
  for (int i = 0; i < gpu_count; i++)
    if (!strcmp(gpus[i].key, key)) return &gpus[i];
  return NULL;
}

static int text_of(const char *line, char *into) {
  for (int words = 0; words < 2; words++) {
    line += strcspn(line, " ");
    line += strspn(line, " ");
  }
  snprintf(into, LONGEST, "%.*s", (int)strcspn(line, "\n"), line);
  return 1;
}

static void forget_values(Gpu *gpu) {
  Gpu kept = *gpu;
  memset(gpu, 0, sizeof(Gpu));
  gpu->socket = kept.socket;
  gpu->type = 1;
  memcpy(gpu->key, kept.key, sizeof kept.key);
}

static int load(int with_gpus) {
  const char *path = getenv("AMDSMI_STUB");
  FILE *file = path ? fopen(path, "r") : NULL;
  char line[1024], word[LONGEST], key[LONGEST], other[LONGEST];
  if (file == NULL) return DRIVER_NOT_LOADED;
  if (with_gpus) gpu_count = 0;
  for (int i = 0; i < gpu_count; i++) forget_values(&gpus[i]);
  error_count = link_count = 0;
  while (fgets(line, sizeof line, file)) {
    int socket, code;
    Gpu *gpu;
    if (sscanf(line, "%199s %199s", word, key) != 2) continue;
    if (!strcmp(word, "gpu")) {
      if (sscanf(line, "%*s %d %199s", &socket, key) != 2) continue;
      if (with_gpus && gpu_count < MOST_GPUS) {
        memset(&gpus[gpu_count], 0, sizeof(Gpu));
        gpus[gpu_count].socket = socket;
        gpus[gpu_count].type = 1;
        snprintf(gpus[gpu_count++].key, LONGEST, "%s", key);
      }
      if ((gpu = named(key)) != NULL) gpu->present = 1;
      continue;
    }
    if (!strcmp(word, "error") && sscanf(line, "%*s %*s %199s %d", other, &code) == 2 && error_count < MOST_ERRORS) {
      memcpy(errors[error_count].symbol, key, LONGEST);
      memcpy(errors[error_count].key, other, LONGEST);
      errors[error_count++].code = code;
      continue;
    }
    if (!strcmp(word, "link") && link_count < MOST_LINKS) {
      if (sscanf(line, "%*s %199s %199s %u %llu %llu", links[link_count].a, links[link_count].b, &links[link_count].type,
                 &links[link_count].weight, &links[link_count].hops) == 5)
        link_count++;
      continue;
    }
    if ((gpu = named(key)) == NULL) continue;
    if (!strcmp(word, "uuid")) gpu->has_uuid = text_of(line, gpu->uuid);
    if (!strcmp(word, "model")) gpu->has_model = text_of(line, gpu->model);
    if (!strcmp(word, "driver")) gpu->has_driver = text_of(line, gpu->driver);
    if (!strcmp(word, "compute")) gpu->has_compute = text_of(line, gpu->compute);
    if (!strcmp(word, "memory_mode")) gpu->has_memory_mode = text_of(line, gpu->memory_mode);
    if (!strcmp(word, "bdf"))
      gpu->has_bdf = sscanf(line, "%*s %*s %x %x %x %x", &gpu->bdf[0], &gpu->bdf[1], &gpu->bdf[2], &gpu->bdf[3]) == 4;
    if (!strcmp(word, "vram")) gpu->has_vram = sscanf(line, "%*s %*s %llu", &gpu->vram) == 1;
    if (!strcmp(word, "used")) gpu->has_used = sscanf(line, "%*s %*s %llu", &gpu->used) == 1;
    if (!strcmp(word, "busy")) gpu->has_busy = sscanf(line, "%*s %*s %u", &gpu->busy) == 1;
    if (!strcmp(word, "numa")) gpu->has_numa = sscanf(line, "%*s %*s %u", &gpu->numa) == 1;
    if (!strcmp(word, "type")) (void)!sscanf(line, "%*s %*s %d", &gpu->type);
    if (!strcmp(word, "ecc")) gpu->has_ecc = sscanf(line, "%*s %*s %llu %llu", &gpu->ecc[0], &gpu->ecc[1]) == 2;
    if (!strcmp(word, "pages")) gpu->has_pages = sscanf(line, "%*s %*s %u", &gpu->pages) == 1;
    if (!strcmp(word, "threshold")) gpu->has_threshold = sscanf(line, "%*s %*s %u", &gpu->threshold) == 1;
  }
  fclose(file);
  return OK;
}

static int failing(const char *symbol, const Gpu *gpu) {
  for (int i = 0; i < error_count; i++)
    if ((!strcmp(errors[i].symbol, symbol) || !strcmp(errors[i].symbol, "*")) &&
        (errors[i].key[0] == '*' || (gpu != NULL && !strcmp(errors[i].key, gpu->key))))
      return errors[i].code;
  if (!initialised) return NOT_INIT;
  if (gpu != NULL && !gpu->present) return NOT_FOUND;
  return OK;
}

#define CHECK(handle, has)                                \
  Gpu *gpu = handle;                                      \
  int code = gpu == NULL ? INVAL : failing(__func__, gpu); \
  if (code != OK) return code;                            \
  if (!(has)) return NOT_SUPPORTED

int amdsmi_init(uint64_t flags) {
  if (flags != 2) return INVAL;
  int code = load(1);
  if (code != OK) return code;
  initialised = 1;
  return failing(__func__, NULL);
}

int amdsmi_shut_down(void) {
  initialised = 0;
  return OK;
}

int amdsmi_get_socket_handles(uint32_t *count, void **handles) {
  int code = initialised ? load(0) : NOT_INIT;
  if (code != OK || (code = failing(__func__, NULL)) != OK) return code;
  uint32_t sockets = 0;
  for (int i = 0; i < gpu_count; i++)
    if ((uint32_t)gpus[i].socket + 1 > sockets) sockets = (uint32_t)gpus[i].socket + 1;
  for (uint32_t i = 0; handles != NULL && i < sockets && i < *count; i++) handles[i] = (void *)(uintptr_t)(i + 1);
  *count = sockets;
  return OK;
}

int amdsmi_get_processor_handles(void *socket, uint32_t *count, void **handles) {
  uint32_t found = 0;
  for (int i = 0; i < gpu_count; i++)
    if ((uintptr_t)gpus[i].socket + 1 == (uintptr_t)socket) {
      if (handles != NULL && found < *count) handles[found] = &gpus[i];
      found++;
    }
  *count = found;
  return OK;
}

int amdsmi_get_processor_type(void *handle, int *type) {
  CHECK(handle, 1);
  *type = gpu->type;
  return OK;
}

int amdsmi_get_gpu_device_bdf(void *handle, uint64_t *bdf) {
  CHECK(handle, gpu->has_bdf);
  *bdf = (uint64_t)gpu->bdf[0] << 16 | gpu->bdf[1] << 8 | gpu->bdf[2] << 3 | gpu->bdf[3];
  return OK;
}

int amdsmi_get_gpu_device_uuid(void *handle, unsigned *length, char *uuid) {
  CHECK(handle, gpu->has_uuid);
  if (*length < 38) return INVAL;
  snprintf(uuid, *length, "%s", gpu->uuid);
  return OK;
}

int amdsmi_get_gpu_asic_info(void *handle, AsicInfo *info) {
  CHECK(handle, gpu->has_model);
  memset(info, 0xff, sizeof *info);
  snprintf(info->market_name, STRING, "%.*s", STRING - 1, gpu->model);
  return OK;
}

int amdsmi_get_gpu_driver_info(void *handle, DriverInfo *info) {
  CHECK(handle, gpu->has_driver);
  memset(info, 0xff, sizeof *info);
  snprintf(info->driver_version, STRING, "%.*s", STRING - 1, gpu->driver);
  return OK;
}

int amdsmi_get_gpu_memory_total(void *handle, int type, uint64_t *total) {
  CHECK(handle, gpu->has_vram);
  if (type != 0) return INVAL;
  *total = gpu->vram;
  return OK;
}

int amdsmi_get_gpu_memory_usage(void *handle, int type, uint64_t *used) {
  CHECK(handle, gpu->has_used);
  if (type != 0) return INVAL;
  *used = gpu->used;
  return OK;
}

int amdsmi_get_gpu_activity(void *handle, EngineUsage *usage) {
  CHECK(handle, gpu->has_busy);
  memset(usage, 0xff, sizeof *usage);
  usage->gfx = gpu->busy;
  return OK;
}

int amdsmi_topo_get_numa_node_number(void *handle, uint32_t *node) {
  CHECK(handle, gpu->has_numa);
  *node = gpu->numa;
  return OK;
}

int amdsmi_get_gpu_total_ecc_count(void *handle, ErrorCount *count) {
  CHECK(handle, gpu->has_ecc);
  memset(count, 0xff, sizeof *count);
  count->correctable = gpu->ecc[0];
  count->uncorrectable = gpu->ecc[1];
  return OK;
}

int amdsmi_get_gpu_bad_page_info(void *handle, uint32_t *count, void *info) {
  CHECK(handle, gpu->has_pages);
  if (info != NULL) return INVAL;
  *count = gpu->pages;
  return OK;
}

#ifndef OLD_ROCM
int amdsmi_get_gpu_bad_page_threshold(void *handle, uint32_t *threshold) {
  CHECK(handle, gpu->has_threshold);
  *threshold = gpu->threshold;
  return OK;
}

int amdsmi_get_gpu_compute_partition(void *handle, char *mode, uint32_t length) {
  CHECK(handle, gpu->has_compute);
  snprintf(mode, length, "%s", gpu->compute);
  return OK;
}

int amdsmi_get_gpu_memory_partition(void *handle, char *mode, uint32_t length) {
  CHECK(handle, gpu->has_memory_mode);
  snprintf(mode, length, "%s", gpu->memory_mode);
  return OK;
}
#endif

static int linked(const char *symbol, Gpu *a, Gpu *b) {
  int code = failing(symbol, a);
  if (code != OK || (code = failing(symbol, b)) != OK) return -code;
  for (int i = 0; i < link_count; i++)
    if ((!strcmp(links[i].a, a->key) && !strcmp(links[i].b, b->key)) || (!strcmp(links[i].a, b->key) && !strcmp(links[i].b, a->key)))
      return i;
  return -NOT_SUPPORTED;
}

int amdsmi_topo_get_link_type(void *from, void *to, uint64_t *hops, uint32_t *type) {
  int link = linked(__func__, from, to);
  if (link < 0) return -link;
  *hops = links[link].hops;
  *type = links[link].type;
  return OK;
}

int amdsmi_topo_get_link_weight(void *from, void *to, uint64_t *weight) {
  int link = linked(__func__, from, to);
  if (link < 0) return -link;
  *weight = links[link].weight;
  return OK;
}
