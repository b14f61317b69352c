/* disks.c - what whole block devices did, from /proc/diskstats (the kernel's
 * Documentation/admin-guide/iostats.rst). Those that did nothing since the start, and partitions,
 * are left out. Which process it was for is procfs.c's (bytes) and the waits' affair. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "collect/growth.h"
#include "collect/kept_file.h"
#include "collect/registry.h"

#define LINES_MOST 4096 /* of the file that are looked at, with partitions */
#define DISKS_MOST 64	/* that are told of */
#define NAME_BYTES 48	/* of the kernel at most 32 */
#define SECTOR	   512	/* of diskstats, whatever the disk's own are */

/* Columns after the name, as far as they are used. */
enum {
	READS,
	READS_MERGED,
	READ_SECTORS,
	READ_MS,
	WRITES,
	WRITES_MERGED,
	WRITTEN_SECTORS,
	WRITE_MS,
	IN_FLIGHT,
	BUSY_MS,
	QUEUED_MS,
	COLUMNS
};

struct disk {
	char name[NAME_BYTES];
	bool whole;
	bool works; /* did anything since the first look */
	uint64_t last[COLUMNS];
	uint64_t read; /* the number of the read */
};

struct disks {
	const struct collect_env *env;
	const struct collect_sink *sink;
	struct kept_file stats;
	VEC(struct disk) known; /* in the order of lines, as a rule */
	size_t working;
	uint64_t reads, last_ns, stats_ns;
};

static int disks_open(void **ret_state, const struct collect_env *env,
		      const struct collect_sink *sink, struct err *e)
{
	(void)e;
	struct disks *d = xcalloc(1, sizeof(*d));
	d->env = env;
	d->sink = sink;
	kept_file_set(&d->stats, env->proc_root, "diskstats");
	if (!kept_file_read(&d->stats)) {
		kept_file_free(&d->stats);
		free(d);
		return -EOPNOTSUPP;
	}
	*ret_state = d;
	return 0;
}

/* Partitions are below their disk there; a '/' of a name is a '!'. */
static bool is_whole(const struct disks *d, const char *name)
{
	char *path = xasprintf("%s/block/%s", d->env->sys_root, name);
	for (char *c = path + strlen(d->env->sys_root) + strlen("/block/"); *c; c++)
		*c = *c == '/' ? '!' : *c;
	bool whole = !access(path, F_OK) && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
	free(path);
	return whole;
}

/* hint: where it stands if nothing came or went. NULL: there are too many. */
static struct disk *disk_of(struct disks *d, const char *name, size_t hint)
{
	if (hint < d->known.len && !strcmp(d->known.data[hint].name, name))
		return &d->known.data[hint];
	for (size_t i = 0; i < d->known.len; i++)
		if (!strcmp(d->known.data[i].name, name))
			return &d->known.data[i];
	if (d->known.len >= LINES_MOST)
		return NULL;
	struct disk *disk = vec_push(&d->known);
	snprintf(disk->name, sizeof(disk->name), "%s", name);
	disk->whole = is_whole(d, name);
	return disk;
}

/* What they took on the mean; where there was none there is no mean. */
static void tell_wait(const struct disks *d, uint64_t now_ns, const struct entity *of,
		      const char *name, uint64_t ms, uint64_t requests)
{
	if (requests)
		sink_counter(d->sink, now_ns, of, name, (double)ms * 1e6 / (double)requests);
}

static void tell(const struct disks *d, const struct disk *disk, const uint64_t by[COLUMNS],
		 uint64_t now_ns, uint64_t passed_ns)
{
	struct entity of = ENTITY_NAMED(ENTITY_DISK, disk->name);
	double passed_ms = (double)passed_ns / 1e6, busy;
	sink_counter(d->sink, now_ns, &of, "read_bytes_per_s",
		     growth_per_s(by[READ_SECTORS], passed_ns) * SECTOR);
	sink_counter(d->sink, now_ns, &of, "written_bytes_per_s",
		     growth_per_s(by[WRITTEN_SECTORS], passed_ns) * SECTOR);
	tell_wait(d, now_ns, &of, "read_wait_ns", by[READ_MS], by[READS]);
	tell_wait(d, now_ns, &of, "write_wait_ns", by[WRITE_MS], by[WRITES]);
	if (growth_ratio(by[BUSY_MS], passed_ms, 1, &busy))
		sink_counter(d->sink, now_ns, &of, "busy_ratio", busy);
	sink_counter(d->sink, now_ns, &of, "queue", (double)by[QUEUED_MS] / passed_ms);
}

/* What shrank began anew: the disk is another by this name, or a number wrapped. */
static void take(struct disks *d, struct disk *disk, const uint64_t now[COLUMNS], uint64_t now_ns,
		 uint64_t passed_ns)
{
	uint64_t by[COLUMNS];
	bool ok = disk->read && disk->read + 1 == d->reads, moved = false;
	for (int i = 0; i < COLUMNS; i++) {
		by[i] = now[i] - disk->last[i];
		ok = ok && (now[i] >= disk->last[i] || i == IN_FLIGHT);
		moved |= i != IN_FLIGHT && by[i];
	}
	memcpy(disk->last, now, sizeof(disk->last));
	disk->read = d->reads;
	if (ok && moved && !disk->works && d->working < DISKS_MOST) {
		disk->works = true;
		d->working++;
	}
	if (ok && disk->works)
		tell(d, disk, by, now_ns, passed_ns);
}

/* " 259 0 nvme0n1 12 3 ...": false where it is not such a line. */
static bool parse(const char *line, char name[NAME_BYTES], uint64_t ret[COLUMNS])
{
	uint64_t device;
	if (!text_number(&line, &device) || !text_number(&line, &device) || *line != ' ')
		return false;
	size_t n = strcspn(++line, " \t\n");
	if (!n || n >= NAME_BYTES)
		return false;
	memcpy(name, line, n);
	name[n] = 0;
	line += n;
	for (int i = 0; i < COLUMNS; i++)
		if (!text_number(&line, &ret[i]))
			return false;
	return true;
}

/* Names of devices that come and go would else take all places. */
static void forget_gone(struct disks *d)
{
	size_t left = 0;
	for (size_t i = 0; i < d->known.len; i++) {
		if (d->known.data[i].read == d->reads)
			d->known.data[left++] = d->known.data[i];
		else
			d->working -= d->known.data[i].works;
	}
	d->known.len = left;
}

static void disks_read(void *state, uint64_t now_ns)
{
	struct disks *d = state;
	uint64_t now[COLUMNS], passed_ns;
	char name[NAME_BYTES];
	size_t n = 0;
	if (!growth_passed(&d->last_ns, now_ns, &passed_ns) || !kept_file_read(&d->stats))
		return;
	uint64_t read_ns = kept_file_time(d->env, now_ns);
	passed_ns = read_ns - d->stats_ns;
	d->stats_ns = read_ns;
	d->reads++;
	for (const char *line = d->stats.text; *line && n < LINES_MOST;
	     line = text_next_line(line), n++) {
		struct disk *disk = parse(line, name, now) ? disk_of(d, name, n) : NULL;
		if (disk && disk->whole)
			take(d, disk, now, now_ns, passed_ns);
		else if (disk)
			disk->read = d->reads;
	}
	forget_gone(d);
}

static void disks_close(void *state)
{
	struct disks *d = state;
	kept_file_free(&d->stats);
	vec_free(&d->known);
	free(d);
}

const struct collector collector_disks = {
	.name = "disks",
	.period_ns = 500000000,
	.open = disks_open,
	.read = disks_read,
	.close = disks_close,
};
