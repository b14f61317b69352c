/* ring.c - the writing side of wire/gpu_ring.h. It knows nothing of CUPTI. */
#include "ring.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* At 100,000 kernels a second the first holds 1.3 s; the others are for a full /dev/shm. */
static const uint64_t sizes[] = {8u << 20, 2u << 20, 256u << 10};

struct ring_name {
	uint64_t hash;
	char *text; /* NULL: free */
	uint32_t number;
};

/* ---- the file ---- */

/* Blocks are taken now: a write to a mapping of a full file system would end the job. So would the
 * SIGXFSZ of a file that is larger than the job's limit. */
static uint64_t allocate(int fd)
{
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
	getrlimit(RLIMIT_FSIZE, &limit);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (GPU_RING_HEADER_BYTES + sizes[i] <= limit.rlim_cur &&
		    !posix_fallocate(fd, 0, (off_t)(GPU_RING_HEADER_BYTES + sizes[i])))
			return sizes[i];
	return 0;
}

static void *map_file(int fd, uint64_t bytes)
{
	size_t len = GPU_RING_HEADER_BYTES + bytes;
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return NULL;
	madvise(p, len, MADV_DONTFORK); /* a child has no CUPTI of its parent's */
	return p;
}

static bool open_path(struct ring *r, const char *path, int flags)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	if (fd < 0)
		return false;
	uint64_t bytes = allocate(fd);
	uint8_t *p = bytes ? map_file(fd, bytes) : NULL;
	close(fd);
	if (!p) {
		unlink(path);
		return false;
	}
	*r = (struct ring){.header = (void *)p, .data = p + GPU_RING_HEADER_BYTES, .bytes = bytes};
	r->header->bytes = bytes;
	r->header->pid = (uint32_t)getpid();
	__atomic_store_n(&r->header->magic, GPU_RING_MAGIC, __ATOMIC_RELEASE);
	return true;
}

bool ring_open(struct ring *r, const char *folder)
{
	char path[4096];
	int n = snprintf(path, sizeof(path), "%s/%d", folder, getpid());
	return n > 0 && (size_t)n < sizeof(path) && open_path(r, path, O_CREAT | O_EXCL);
}

bool ring_open_file(struct ring *r, const char *path)
{
	return open_path(r, path, 0);
}

void ring_close(struct ring *r)
{
	for (size_t i = 0; i < r->names_cap; i++)
		free(r->names[i].text);
	free(r->names);
	munmap(r->header, GPU_RING_HEADER_BYTES + r->bytes);
	*r = (struct ring){0};
}

void ring_set_state(struct ring *r, enum gpu_ring_state state, const char *text)
{
	if (text)
		snprintf(r->header->text, sizeof(r->header->text), "%s", text);
	__atomic_store_n(&r->header->state, (uint32_t)state, __ATOMIC_RELEASE);
}

void ring_set_tells(struct ring *r, unsigned tells)
{
	__atomic_fetch_or(&r->header->tells, tells, __ATOMIC_RELEASE);
}

bool ring_paused(const struct ring *r)
{
	return __atomic_load_n(&r->header->pause, __ATOMIC_RELAXED) != 0;
}

bool ring_stopped(const struct ring *r)
{
	return __atomic_load_n(&r->header->stop, __ATOMIC_RELAXED) != 0;
}

/* ---- room ---- */

/* The consumer writes through the kernel, which need not store eight bytes at once: what was
 * read twice alike, and is possible, holds. */
static void read_tail(struct ring *r)
{
	uint64_t a = __atomic_load_n(&r->header->tail, __ATOMIC_ACQUIRE);
	uint64_t b = __atomic_load_n(&r->header->tail, __ATOMIC_ACQUIRE);
	if (a == b && a >= r->tail && a <= r->head)
		r->tail = a;
}

static bool has_room(struct ring *r, uint64_t bytes)
{
	if (r->bytes - (r->head - r->tail) < bytes)
		read_tail(r);
	return r->bytes - (r->head - r->tail) >= bytes;
}

static void *record_at_head(struct ring *r, uint32_t kind, uint64_t bytes)
{
	struct gpu_ring_record *record = (void *)(r->data + (r->head & (r->bytes - 1)));
	*record = (struct gpu_ring_record){.kind = kind, .bytes = (uint32_t)bytes};
	r->head += bytes;
	return record;
}

/* Room for one record; what is left before the ring's end is skipped if it does not fit. */
static void *reserve(struct ring *r, uint32_t kind, uint64_t bytes)
{
	uint64_t left = r->bytes - (r->head & (r->bytes - 1));
	uint64_t skipped = left < bytes ? left : 0;
	if (!has_room(r, skipped + bytes))
		return NULL;
	if (skipped)
		record_at_head(r, GPU_RING_PAD, skipped);
	return record_at_head(r, kind, bytes);
}

static void publish(struct ring *r)
{
	__atomic_store_n(&r->header->head, r->head, __ATOMIC_RELEASE);
}

/* ---- names ---- */

/* Of eight bytes at a time: kernels' names are hundreds of characters long. */
static uint64_t hash_text(const char *text, size_t len)
{
	uint64_t h = len * 0x9e3779b97f4a7c15ULL, word;
	for (; len >= 8; text += 8, len -= 8) {
		memcpy(&word, text, 8);
		h = (h ^ word) * 0xff51afd7ed558ccdULL;
		h ^= h >> 32;
	}
	word = 0;
	memcpy(&word, text, len);
	h = (h ^ word) * 0xff51afd7ed558ccdULL;
	return h ^ h >> 32;
}

static struct ring_name *slot_of(struct ring *r, uint64_t hash, const char *text)
{
	size_t i = hash & (r->names_cap - 1);
	while (r->names[i].text &&
	       (r->names[i].hash != hash || strcmp(r->names[i].text, text) != 0))
		i = (i + 1) & (r->names_cap - 1);
	return &r->names[i];
}

static bool grow_names(struct ring *r)
{
	if (r->names_len * 2 < r->names_cap)
		return true;
	struct ring old = *r;
	r->names_cap = old.names_cap ? old.names_cap * 2 : 256;
	r->names = calloc(r->names_cap, sizeof(*r->names));
	if (!r->names) {
		*r = old;
		return false;
	}
	for (size_t i = 0; i < old.names_cap; i++)
		if (old.names[i].text)
			*slot_of(r, old.names[i].hash, old.names[i].text) = old.names[i];
	free(old.names);
	return true;
}

static bool put_name(struct ring *r, uint32_t number, const char *text, size_t len)
{
	if (len > GPU_RING_NAME_BYTES)
		len = GPU_RING_NAME_BYTES;
	struct gpu_ring_name *record =
		reserve(r, GPU_RING_NAME, (sizeof(*record) + len + 7) & ~(uint64_t)7);
	if (!record)
		return false;
	record->number = number;
	record->len = (uint32_t)len;
	memcpy(record + 1, text, len);
	return true;
}

/* The name's number; it is told when it is first met. 0 when there is no room for that. */
static uint32_t name_number(struct ring *r, const char *text)
{
	if (!grow_names(r))
		return 0;
	size_t len = strlen(text);
	uint64_t hash = hash_text(text, len);
	struct ring_name *slot = slot_of(r, hash, text);
	if (slot->text)
		return slot->number;
	char *copy = strdup(text);
	if (!copy || !put_name(r, (uint32_t)r->names_len + 1, text, len)) {
		free(copy);
		return 0;
	}
	*slot = (struct ring_name){hash, copy, (uint32_t)++r->names_len};
	/* cppcheck-suppress memleak ; the slot has the copy */
	return slot->number;
}

void ring_put(struct ring *r, struct gpu_ring_span *span, const char *name)
{
	bool named = name && *name;
	span->name = named ? name_number(r, name) : 0;
	struct gpu_ring_span *place =
		named && !span->name ? NULL : reserve(r, GPU_RING_SPAN, sizeof(*span));
	if (place) {
		span->record = place->record;
		*place = *span;
	} else {
		__atomic_fetch_add(&r->header->full, 1, __ATOMIC_RELAXED);
	}
	publish(r);
}

void ring_put_call(struct ring *r, struct gpu_ring_call *call)
{
	struct gpu_ring_call *place = reserve(r, GPU_RING_CALL, sizeof(*call));
	if (place) {
		call->record = place->record;
		*place = *call;
	} else {
		__atomic_fetch_add(&r->header->full_calls, 1, __ATOMIC_RELAXED);
	}
	publish(r);
}

void ring_lost_ops(struct ring *r, uint64_t n)
{
	__atomic_fetch_add(&r->header->lost_ops, n, __ATOMIC_RELAXED);
}

void ring_put_op(struct ring *r, struct gpu_ring_op *op)
{
	struct gpu_ring_op *place = reserve(r, GPU_RING_OP, sizeof(*op));
	if (place) {
		op->record = place->record;
		*place = *op;
	} else {
		ring_lost_ops(r, 1);
	}
	publish(r);
}

void ring_put_launch(struct ring *r, struct gpu_ring_launch *launch)
{
	struct gpu_ring_launch *place = reserve(r, GPU_RING_LAUNCH, sizeof(*launch));
	if (place) {
		launch->record = place->record;
		*place = *launch;
	} else {
		ring_lost_ops(r, 1);
	}
	publish(r);
}

bool ring_put_operator_name(struct ring *r, uint32_t number, uint32_t kind, const char *text,
			    size_t len)
{
	struct gpu_ring_op_name *record =
		reserve(r, GPU_RING_OP_NAME, (sizeof(*record) + len + 7) & ~(uint64_t)7);
	if (!record)
		return false;
	record->number = number;
	record->len = (uint32_t)len;
	record->kind = kind;
	record->pad = 0;
	memcpy(record + 1, text, len);
	publish(r);
	return true;
}

void ring_put_ops_upto(struct ring *r, uint64_t ns)
{
	struct gpu_ring_ops_upto *record = reserve(r, GPU_RING_OPS_UPTO, sizeof(*record));
	if (record)
		record->ns = ns;
	publish(r);
}

void ring_set_why(struct ring *r, const char *why)
{
	snprintf(r->header->why, sizeof(r->header->why), "%s", why);
}

bool ring_wants_no(const struct ring *r, uint32_t number)
{
	uint8_t byte = __atomic_load_n(&r->header->unwanted[number / 8], __ATOMIC_RELAXED);
	return byte >> number % 8 & 1;
}
