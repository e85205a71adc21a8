/* Stand-in for libdcmi.so: answers DCMI calls from a text file, for tests without hardware.
 *
 * The file is named by the environment variable DCMI_STUB. It is read again by dcmi_init and dcmi_get_card_list, so
 * that a test can change the machine of a running process.
 *
 * One statement per line; CARD and CHIP are ids, and a text extends to the end of the line:
 *
 *   driver TEXT                       version
 *   chip CARD CHIP LOGIC PHYSICAL     one NPU; a card has the chips 0 to the highest one that is listed
 *   type CARD CHIP TEXT, name CARD CHIP TEXT
 *   hbm CARD CHIP MIB, memory CARD CHIP MIB
 *   bus CARD CHIP DOMAIN BUS DEVICE FUNCTION   (hexadecimal)
 *   health CARD CHIP N, network CARD CHIP N    N may be negative for an error code
 *   code CARD CHIP HEX                an error code, one per line
 *   ip CARD CHIP A.B.C.D
 *   unit CARD CHIP N                  dcmi_unit_type; 0 (NPU) without it
 *   path PHYSICAL PHYSICAL N          topology, both ways
 *   error SYMBOL CARD|* CODE          the result of that symbol, for the chips of one card or for every call
 *
 * What the file does not mention is not supported. -DOLD_DRIVER leaves out functions that early drivers lack.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CHIPS 64
#define MOST_CODES 16
#define MOST_ERRORS 64
#define MOST_PATHS 512
#define LONGEST 256
#define MOST_PROCESSES 16

enum { OK = 0, INVALID_PARAMETER = -8001, DEVICE_NOT_EXIST = -8008, IOCTL_FAIL = -8009, NOT_SUPPORT = -8255 };

typedef struct {
  int card, chip, logic, physical, unit;
  int has_name, has_hbm, has_memory, has_bus, has_health, has_network, has_ip;
  char type[LONGEST], name[LONGEST];
  unsigned long long hbm, memory;
  unsigned bus[4];
  long long health;
  int network;
  unsigned codes[MOST_CODES];
  int code_count;
  unsigned char ip[4];
  unsigned long long hbm_used;
  unsigned memory_percent, busy;
  int has_busy, has_processes, process_count;
  struct { int id; unsigned long bytes; } processes[MOST_PROCESSES];
} Chip;

static Chip chips[MOST_CHIPS];
static int chip_count;
static char driver[LONGEST];
static struct { char symbol[LONGEST]; int card; int code; } errors[MOST_ERRORS];
static int error_count;
static struct { int a, b, path; } paths[MOST_PATHS];
static int path_count;

static Chip *find(int card, int chip) {
  for (int i = 0; i < chip_count; i++)
    if (chips[i].card == card && chips[i].chip == chip) return &chips[i];
  return NULL;
}

static void text_after(const char *line, int words, char *into) {
  while (words-- > 0) {
    line += strcspn(line, " ");
    line += strspn(line, " ");
  }
  snprintf(into, LONGEST, "%.*s", (int)strcspn(line, "\n"), line);
}

static int load(void) {
  const char *path = getenv("DCMI_STUB");
  FILE *file = path ? fopen(path, "r") : NULL;
  char line[1024], word[LONGEST], who[LONGEST];
  if (file == NULL) return IOCTL_FAIL;
  chip_count = error_count = path_count = 0;
  driver[0] = 0;
  while (fgets(line, sizeof line, file)) {
    int a, b, c, d;
    Chip *chip;
    if (sscanf(line, "%255s", word) != 1) continue;
    if (!strcmp(word, "driver")) {
      text_after(line, 1, driver);
    } else if (!strcmp(word, "chip") && sscanf(line, "%*s %d %d %d %d", &a, &b, &c, &d) == 4 && chip_count < MOST_CHIPS) {
      memset(&chips[chip_count], 0, sizeof(Chip));
      chips[chip_count].card = a;
      chips[chip_count].chip = b;
      chips[chip_count].logic = c;
      chips[chip_count++].physical = d;
    } else if (!strcmp(word, "path") && sscanf(line, "%*s %d %d %d", &a, &b, &c) == 3 && path_count < MOST_PATHS) {
      paths[path_count].a = a;
      paths[path_count].b = b;
      paths[path_count++].path = c;
    } else if (!strcmp(word, "error") && sscanf(line, "%*s %255s %255s %d", word, who, &a) == 3 && error_count < MOST_ERRORS) {
      snprintf(errors[error_count].symbol, LONGEST, "%s", word);
      errors[error_count].card = who[0] == '*' ? -1 : atoi(who);
      errors[error_count++].code = a;
    } else if (sscanf(line, "%*s %d %d", &a, &b) == 2 && (chip = find(a, b)) != NULL) {
      if (!strcmp(word, "type")) text_after(line, 3, chip->type);
      if (!strcmp(word, "name")) { text_after(line, 3, chip->name); chip->has_name = 1; }
      if (!strcmp(word, "hbm")) chip->has_hbm = sscanf(line, "%*s %*d %*d %llu", &chip->hbm);
      if (!strcmp(word, "memory")) chip->has_memory = sscanf(line, "%*s %*d %*d %llu", &chip->memory);
      if (!strcmp(word, "hbm_used")) (void)!sscanf(line, "%*s %*d %*d %llu", &chip->hbm_used);
      if (!strcmp(word, "memory_percent")) (void)!sscanf(line, "%*s %*d %*d %u", &chip->memory_percent);
      if (!strcmp(word, "busy")) chip->has_busy = sscanf(line, "%*s %*d %*d %u", &chip->busy);
      if (!strcmp(word, "processes")) chip->has_processes = 1;
      if (!strcmp(word, "process") && chip->process_count < MOST_PROCESSES)
        chip->process_count += sscanf(line, "%*s %*d %*d %d %lu", &chip->processes[chip->process_count].id,
                                      &chip->processes[chip->process_count].bytes) == 2;
      if (!strcmp(word, "bus"))
        chip->has_bus = sscanf(line, "%*s %*d %*d %x %x %x %x", &chip->bus[0], &chip->bus[1], &chip->bus[2], &chip->bus[3]) == 4;
      if (!strcmp(word, "health")) chip->has_health = sscanf(line, "%*s %*d %*d %lld", &chip->health);
      if (!strcmp(word, "network")) chip->has_network = sscanf(line, "%*s %*d %*d %d", &chip->network);
      if (!strcmp(word, "unit")) (void)!sscanf(line, "%*s %*d %*d %d", &chip->unit);
      if (!strcmp(word, "code") && chip->code_count < MOST_CODES)
        chip->code_count += sscanf(line, "%*s %*d %*d %x", &chip->codes[chip->code_count]) == 1;
      if (!strcmp(word, "ip"))
        chip->has_ip = sscanf(line, "%*s %*d %*d %hhu.%hhu.%hhu.%hhu", &chip->ip[0], &chip->ip[1], &chip->ip[2], &chip->ip[3]) == 4;
    }
  }
  fclose(file);
  return OK;
}

static int failing(const char *symbol, int card) {
  for (int i = 0; i < error_count; i++)
    if ((!strcmp(errors[i].symbol, symbol) || !strcmp(errors[i].symbol, "*")) &&
        (errors[i].card == -1 || errors[i].card == card))
      return errors[i].code;
  return OK;
}

/* The chip of a call, or the error that the call returns. */
static Chip *of(const char *symbol, int card, int number, int *code) {
  Chip *chip = find(card, number);
  *code = failing(symbol, card);
  if (*code == OK && chip == NULL) *code = DEVICE_NOT_EXIST;
  return *code == OK ? chip : NULL;
}

int dcmi_init(void) {
  int code = load();
  return code ? code : failing("dcmi_init", -2);
}

int dcmi_get_driver_version(char *into, unsigned length) {
  if (!driver[0]) return NOT_SUPPORT;
  snprintf(into, length, "%s", driver);
  return OK;
}

int dcmi_get_card_list(int *count, int *list, int length) {
  int code = load();
  if (code == OK) code = failing("dcmi_get_card_list", -2);
  if (code) return code;
  *count = 0;
  for (int i = 0; i < chip_count; i++) {
    int known = 0;
    for (int j = 0; j < *count; j++) known |= list[j] == chips[i].card;
    if (!known && *count < length) list[(*count)++] = chips[i].card;
  }
  return OK;
}

int dcmi_get_device_num_in_card(int card, int *count) {
  int code = failing("dcmi_get_device_num_in_card", card);
  if (code) return code;
  *count = 0;
  for (int i = 0; i < chip_count; i++)
    if (chips[i].card == card && chips[i].chip >= *count) *count = chips[i].chip + 1;
  return OK;
}

int dcmi_get_device_type(int card, int number, int *type) {
  int code;
  Chip *chip = of("dcmi_get_device_type", card, number, &code);
  if (chip) *type = chip->unit;
  return code;
}

int dcmi_get_device_logic_id(int *logic, int card, int number) {
  int code;
  Chip *chip = of("dcmi_get_device_logic_id", card, number, &code);
  if (chip) *logic = chip->logic;
  return code;
}

int dcmi_get_device_phyid_from_logicid(unsigned logic, unsigned *physical) {
  for (int i = 0; i < chip_count; i++)
    if (chips[i].logic == (int)logic) {
      *physical = (unsigned)chips[i].physical;
      return OK;
    }
  return INVALID_PARAMETER;
}

struct chip_info {
  unsigned char type[32], name[32], version[32];
  unsigned cores;
  unsigned char npu_name[32];
};

static int chip_info(const char *symbol, int card, int number, struct chip_info *info) {
  int code;
  Chip *chip = of(symbol, card, number, &code);
  if (chip && !chip->has_name) code = NOT_SUPPORT;
  if (code) return code;
  snprintf((char *)info->type, 32, "%.31s", chip->type);
  snprintf((char *)info->name, 32, "%.31s", chip->name);
  snprintf((char *)info->version, 32, "V1");
  info->cores = 32;
  return OK;
}

int dcmi_get_device_chip_info(int card, int number, struct chip_info *info) {
  return chip_info("dcmi_get_device_chip_info", card, number, info);
}

struct hbm_info {
  unsigned long long size;
  unsigned frequency;
  unsigned long long used;
  int temperature;
  unsigned bandwidth;
};

int dcmi_get_device_hbm_info(int card, int number, struct hbm_info *info) {
  int code;
  Chip *chip = of("dcmi_get_device_hbm_info", card, number, &code);
  if (chip && !chip->has_hbm) code = NOT_SUPPORT;
  if (code) return code;
  info->size = chip->hbm;
  info->used = chip->hbm_used;
  return OK;
}

struct memory_info {
  unsigned long long size, available;
  unsigned frequency;
  unsigned long huge_page, huge_pages, huge_pages_free;
  unsigned used;
  unsigned char reserved[60];
};

int dcmi_get_device_memory_info_v3(int card, int number, struct memory_info *info) {
  int code;
  Chip *chip = of("dcmi_get_device_memory_info_v3", card, number, &code);
  if (chip && !chip->has_memory) code = NOT_SUPPORT;
  if (code) return code;
  memset(info, 0, sizeof *info);
  info->size = chip->memory;
  info->used = chip->memory_percent;
  return OK;
}

int dcmi_get_device_utilization_rate(int card, int number, int type, unsigned *rate) {
  int code;
  Chip *chip = of("dcmi_get_device_utilization_rate", card, number, &code);
  if (chip && (!chip->has_busy || type != 2)) code = NOT_SUPPORT;
  if (code) return code;
  *rate = chip->busy;
  return OK;
}

struct process_info {
  int id;
  unsigned long bytes;
};

int dcmi_get_device_resource_info(int card, int number, struct process_info *list, int *count) {
  int code;
  Chip *chip = of("dcmi_get_device_resource_info", card, number, &code);
  if (chip && !chip->has_processes) code = NOT_SUPPORT;
  if (code) return code;
  *count = chip->process_count;
  for (int i = 0; i < chip->process_count; i++)
    list[i] = (struct process_info){chip->processes[i].id, chip->processes[i].bytes};
  return OK;
}

struct pcie_info {
  unsigned vendor, subvendor, device_id, subdevice_id;
  int domain;
  unsigned bus, device, function;
  unsigned char reserved[32];
};

int dcmi_get_device_pcie_info_v2(int card, int number, struct pcie_info *info) {
  int code;
  Chip *chip = of("dcmi_get_device_pcie_info_v2", card, number, &code);
  if (chip && !chip->has_bus) code = NOT_SUPPORT;
  if (code) return code;
  memset(info, 0, sizeof *info);
  info->domain = (int)chip->bus[0];
  info->bus = chip->bus[1];
  info->device = chip->bus[2];
  info->function = chip->bus[3];
  return OK;
}

int dcmi_get_device_health(int card, int number, unsigned *health) {
  int code;
  Chip *chip = of("dcmi_get_device_health", card, number, &code);
  if (chip && !chip->has_health) code = NOT_SUPPORT;
  if (code) return code;
  if (chip->health < 0) return (int)chip->health;
  *health = (unsigned)chip->health;
  return OK;
}

int dcmi_get_device_errorcode_v2(int card, int number, int *count, unsigned *list, unsigned length) {
  int code;
  Chip *chip = of("dcmi_get_device_errorcode_v2", card, number, &code);
  if (code) return code;
  *count = 0;
  for (int i = 0; i < chip->code_count && (unsigned)i < length; i++) list[(*count)++] = chip->codes[i];
  return OK;
}

int dcmi_get_device_network_health(int card, int number, int *health) {
  int code;
  Chip *chip = of("dcmi_get_device_network_health", card, number, &code);
  if (chip && !chip->has_network) code = NOT_SUPPORT;
  if (code) return code;
  *health = chip->network;
  return OK;
}

struct ip_address {
  unsigned char bytes[16];
  int type;
};

int dcmi_get_device_ip(int card, int number, int port, int id, struct ip_address *ip, struct ip_address *mask) {
  int code;
  Chip *chip = of("dcmi_get_device_ip", card, number, &code);
  if (chip && (!chip->has_ip || port != 1 || id != 0)) code = NOT_SUPPORT;
  if (code) return code;
  memset(ip, 0, sizeof *ip);
  memset(mask, 255, 4);
  memcpy(ip->bytes, chip->ip, 4);
  return OK;
}

#ifndef OLD_DRIVER
int dcmi_get_device_chip_info_v2(int card, int number, struct chip_info *info) {
  int code = chip_info("dcmi_get_device_chip_info_v2", card, number, info);
  if (code == OK) snprintf((char *)info->npu_name, 32, "%.31s", (char *)info->name);
  return code;
}

int dcmi_get_topo_info_by_device_id(int card1, int chip1, int card2, int chip2, int *path) {
  int code;
  Chip *one = of("dcmi_get_topo_info_by_device_id", card1, chip1, &code);
  Chip *other = code ? NULL : of("dcmi_get_topo_info_by_device_id", card2, chip2, &code);
  if (code) return code;
  for (int i = 0; i < path_count; i++)
    if ((paths[i].a == one->physical && paths[i].b == other->physical) ||
        (paths[i].b == one->physical && paths[i].a == other->physical)) {
      *path = paths[i].path;
      return OK;
    }
  return NOT_SUPPORT;
}
#endif
