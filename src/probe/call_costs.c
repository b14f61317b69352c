/* call_costs.c - one file, which says what host and program its figures are of. */
#include "probe/call_costs.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/cache_folder.h"

#define FILE_NAME "calls.cost"
#define LINE_MOST 128

/* What the figures depend on; compared whole. */
struct kept {
	char magic[8];
	char boot_id[LINE_MOST];
	struct utsname kernel;
	char cpu[LINE_MOST];
	uint64_t device, inode, size;
	int64_t changed_s, changed_ns;
	uint32_t method;
	uint32_t zero;
	struct call_costs costs; /* last: is no part of what is compared */
};

/* The first line that begins so; ret is zeros else. */
static void read_line(const char *path, const char *begins, char ret[LINE_MOST])
{
	char line[LINE_MOST];
	FILE *f = fopen(path, "re");
	bool found = false;
	while (f && !found && fgets(line, sizeof(line), f))
		found = !strncmp(line, begins, strlen(begins));
	if (found)
		snprintf(ret, LINE_MOST, "%s", line);
	if (f)
		fclose(f);
}

static void describe(struct kept *ret, enum attach_method method)
{
	struct stat st = {0};
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->magic, "eACGMcal", sizeof(ret->magic));
	read_line("/proc/sys/kernel/random/boot_id", "", ret->boot_id);
	read_line("/proc/cpuinfo", "model name", ret->cpu);
	uname(&ret->kernel);
	if (!stat("/proc/self/exe", &st)) {
		ret->device = st.st_dev;
		ret->inode = st.st_ino;
		ret->size = (uint64_t)st.st_size;
		ret->changed_s = st.st_ctim.tv_sec;
		ret->changed_ns = st.st_ctim.tv_nsec;
	}
	ret->method = method;
}

static bool is_of_this(void *ctx, const uint8_t *bytes, size_t len)
{
	return len == sizeof(struct kept) && !memcmp(bytes, ctx, offsetof(struct kept, costs));
}

static struct cache_folder *open_folder(const char *dir)
{
	const struct cache_kind kind = {.folder = "costs",
					.ending = ".cost",
					.max_bytes = 1 << 20,
					.max_files = 16,
					.max_bytes_a_file = sizeof(struct kept)};
	return cache_folder_open(dir, &kind);
}

bool call_costs_load(struct call_costs *ret, enum attach_method method, const char *dir)
{
	struct kept kept;
	struct buf b = {0};
	struct cache_folder *folder = open_folder(dir);
	describe(&kept, method);
	bool found = cache_folder_load(folder, FILE_NAME, is_of_this, &kept, &b);
	cache_folder_close(folder);
	if (found)
		memcpy(ret, b.data + offsetof(struct kept, costs), sizeof(*ret));
	buf_free(&b);
	return found;
}

void call_costs_store(const struct call_costs *costs, enum attach_method method, const char *dir)
{
	struct kept kept;
	struct cache_folder *folder = open_folder(dir);
	describe(&kept, method);
	kept.costs = *costs;
	cache_folder_store(folder, FILE_NAME, &kept, sizeof(kept));
	cache_folder_close(folder);
}
