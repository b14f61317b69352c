/* facts_cache.c - an answer is a file HASH.facts: a head, the key, the answer. The hash finds it;
 * where two keys have the same, they take each other's place. */
#include "probe/facts_cache.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "base/cache_folder.h"
#include "base/map64.h"

#define DEFAULT_BYTES  (128ULL << 20)
#define FILE_BYTES_MAX (16ULL << 20) /* PyTorch's largest takes a tenth of it */
#define FILES_MAX      8192
#define SETTLED_NS     2000000000LL /* clocks of file systems tick up to once a second */
#define VERSION	       2
#define ENDING	       ".facts"

static const char magic[8] = "eACGMFc";

struct head {
	char magic[8];
	uint32_t version;
	uint32_t sum; /* CRC-32 of what follows the head */
	uint64_t key_len, answer_len;
};

/* What the kernel says of a file. */
struct identity {
	uint64_t device, inode, size, owner;
	int64_t changed_s, changed_ns, modified_s, modified_ns;
};

struct facts_cache {
	struct cache_folder *folder; /* NULL: nothing is kept */
	struct identity program;
};

/* ---- files ---- */

static bool identify(int fd, struct identity *ret)
{
	struct stat st;
	if (fstat(fd, &st))
		return false;
	*ret = (struct identity){
		.device = st.st_dev,
		.inode = st.st_ino,
		.size = (uint64_t)st.st_size,
		.owner = st.st_uid,
		.changed_s = st.st_ctim.tv_sec,
		.changed_ns = st.st_ctim.tv_nsec,
		.modified_s = st.st_mtim.tv_sec,
		.modified_ns = st.st_mtim.tv_nsec,
	};
	return true;
}

static bool identify_program(struct identity *ret)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	bool known = fd >= 0 && identify(fd, ret);
	if (fd >= 0)
		close(fd);
	return known;
}

#define F2FS	 0xf2f52010
#define ZFS	 0x2fc12fc1
#define BCACHEFS 0xca451a4e

/* Whether the kernel itself sets the times there, at each change. Not so overlays: theirs are those
 * of the layers, which may be images with times of their own, or anybody's file system. */
static bool has_true_times(int fd)
{
	static const uint32_t kinds[] = {
		EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, F2FS, ZFS, BCACHEFS};
	struct statfs fs;
	if (fstatfs(fd, &fs) || ((uint64_t)fs.f_flags & ST_NOSUID))
		return false;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if ((uint32_t)fs.f_type == kinds[i])
			return true;
	return false;
}

/* Whether any later change will have another time; not so of times to come. */
static bool is_settled(const struct identity *file)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	int64_t age_ns =
		(now.tv_sec - file->changed_s) * 1000000000LL + now.tv_nsec - file->changed_ns;
	return now.tv_sec >= file->changed_s && age_ns >= SETTLED_NS;
}

/* ---- keys ---- */

void facts_cache_key(const struct facts_cache *c, int fd, unsigned op, const void *asked,
		     size_t len, struct buf *ret)
{
	struct identity file;
	uint64_t op64 = op;
	*ret = (struct buf){0};
	if (!c->folder || !has_true_times(fd) || !identify(fd, &file) || !is_settled(&file))
		return;
	buf_add(ret, &file, sizeof(file)); /* first: see is_unchanged */
	buf_add(ret, &c->program, sizeof(c->program));
	buf_add(ret, &op64, sizeof(op64));
	buf_add(ret, asked, len);
}

static bool is_unchanged(int fd, const struct buf *key)
{
	struct identity file;
	return identify(fd, &file) && !memcmp(key->data, &file, sizeof(file));
}

static void name_of(const struct buf *key, char ret[32])
{
	snprintf(ret, 32, "%016" PRIx64 ENDING, hash_bytes(key->data, key->len));
}

/* ---- the folder ---- */

struct facts_cache *facts_cache_open(const char *dir, uint64_t max_bytes)
{
	const struct cache_kind kind = {
		.folder = "facts",
		.ending = ENDING,
		.max_bytes = max_bytes ? max_bytes : DEFAULT_BYTES,
		.max_files = FILES_MAX,
		.max_bytes_a_file = FILE_BYTES_MAX,
	};
	struct facts_cache *c = xcalloc(1, sizeof(*c));
	if (geteuid() == 0 && identify_program(&c->program))
		c->folder = cache_folder_open(dir, &kind);
	return c;
}

void facts_cache_close(struct facts_cache *c)
{
	if (!c)
		return;
	cache_folder_close(c->folder);
	free(c);
}

static uint32_t sum_of(const uint8_t *after_head, size_t len)
{
	return (uint32_t)crc32_z(0, after_head, len);
}

static bool is_answer_to(void *ctx, const uint8_t *bytes, size_t len)
{
	const struct buf *key = ctx;
	struct head h;
	if (len < sizeof(h))
		return false;
	memcpy(&h, bytes, sizeof(h));
	size_t after = len - sizeof(h);
	return !memcmp(h.magic, magic, sizeof(magic)) && h.version == VERSION &&
	       h.key_len == key->len && key->len <= after && h.answer_len == after - key->len &&
	       !memcmp(bytes + sizeof(h), key->data, key->len) &&
	       h.sum == sum_of(bytes + sizeof(h), after);
}

bool facts_cache_load(struct facts_cache *c, const struct buf *key, struct buf *ret)
{
	char name[32];
	if (!key->len)
		return false;
	name_of(key, name);
	if (!cache_folder_load(c->folder, name, is_answer_to, (void *)key, ret))
		return false;
	size_t before = sizeof(struct head) + key->len;
	ret->len -= before;
	memmove(ret->data, ret->data + before, ret->len);
	return true;
}

void facts_cache_store(struct facts_cache *c, int fd, const struct buf *key,
		       const struct buf *answer)
{
	struct head h = {.version = VERSION, .key_len = key->len, .answer_len = answer->len};
	struct buf b = {0};
	char name[32];
	if (!key->len || !is_unchanged(fd, key))
		return;
	memcpy(h.magic, magic, sizeof(magic));
	buf_add(&b, &h, sizeof(h));
	buf_add(&b, key->data, key->len);
	buf_add(&b, answer->data, answer->len);
	h.sum = sum_of(b.data + sizeof(h), b.len - sizeof(h));
	memcpy(b.data, &h, sizeof(h));
	name_of(key, name);
	cache_folder_store(c->folder, name, b.data, b.len);
	buf_free(&b);
}
