/* unwind_cache.c - keeps compiled unwind tables as files BUILDID-OWNER-SIZE-CRC.unt.
 *
 * A build id is what a file says of itself, and root's cache has tables of everybody's files: so
 * that nobody plants rules for the files of another, the file's owner is part of the name. Its
 * size and the CRC-32 of its .eh_frame keep files apart whose build ids are the same by mistake.
 *
 * A file is the words of wire/unwind.h and nothing else. What a power failure leaves does not pass
 * unwind_table_check. That removes damaged files and those of another UNWIND_TABLE_VERSION, which
 * is raised with every change of what unwind_table.c makes of a file.
 *
 * A folder or file that belongs to someone else is not used: a table of theirs could not harm
 * BPF, but it could draw wrong stacks. */
#include "symbolize/unwind_cache.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/cache_folder.h"

#define DEFAULT_BYTES	  (512ULL << 20)
#define FILE_BYTES_MAX	  (256ULL << 20)
#define FILES_MAX	  65536
#define SHORTEST_BUILD_ID 16 /* digits; shorter ones are made by hand and mean nothing */
#define TABLE_ENDING	  ".unt"

struct unwind_cache {
	struct cache_folder *folder;
};

struct unwind_cache *unwind_cache_open(const char *dir, uint64_t max_bytes)
{
	const struct cache_kind kind = {
		.folder = "unwind",
		.ending = TABLE_ENDING,
		.max_bytes = max_bytes ? max_bytes : DEFAULT_BYTES,
		.max_files = FILES_MAX,
		.max_bytes_a_file = FILE_BYTES_MAX,
	};
	struct unwind_cache *c = xcalloc(1, sizeof(*c));

	c->folder = cache_folder_open(dir, &kind);
	return c;
}

void unwind_cache_close(struct unwind_cache *c)
{
	if (!c)
		return;
	cache_folder_close(c->folder);
	free(c);
}

char *unwind_cache_name(const struct elf_file *f)
{
	return unwind_cache_name_of(elf_file_build_id(f), elf_file_owner(f), elf_file_size(f),
				    unwind_cache_sum(f));
}

uint32_t unwind_cache_sum(const struct elf_file *f)
{
	const uint8_t *eh_frame;
	uint64_t ignored;
	size_t len;

	if (!elf_file_section(f, ".eh_frame", &eh_frame, &len, &ignored))
		return 0;
	return crc32_z(0, eh_frame, len);
}

char *unwind_cache_name_of(const char *build_id, uid_t owner, uint64_t size, uint32_t sum)
{
	if (strlen(build_id) < SHORTEST_BUILD_ID ||
	    build_id[strspn(build_id, "0123456789abcdef")] != '\0')
		return NULL;
	return xasprintf("%s-%u-%" PRIx64 "-%08x" TABLE_ENDING, build_id, owner, size, sum);
}

static bool is_table(void *ctx, const uint8_t *bytes, size_t len)
{
	(void)ctx;
	return len % sizeof(uint32_t) == 0 &&
	       unwind_table_check((const uint32_t *)bytes, len / sizeof(uint32_t), NULL) == 0;
}

bool unwind_cache_load(const struct unwind_cache *c, const char *name, struct unwind_table *ret)
{
	struct buf b;

	if (!name || !cache_folder_load(c->folder, name, is_table, NULL, &b))
		return false;
	ret->words = (uint32_t *)b.data;
	ret->len = b.len / sizeof(*ret->words);
	return true;
}

int unwind_cache_file(const struct unwind_cache *c, const char *name, const struct unwind_table *t)
{
	struct unwind_table_head head;
	struct stat st;
	int fd = name ? cache_folder_open_file(c->folder, name) : -1;

	/* the head has a sum of all words */
	if (fd >= 0 && (fstat(fd, &st) < 0 || (uint64_t)st.st_size != t->len * sizeof(*t->words) ||
			pread(fd, &head, sizeof(head), 0) != sizeof(head) ||
			memcmp(&head, t->words, sizeof(head)) != 0)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

void unwind_cache_store(const struct unwind_cache *c, const char *name,
			const struct unwind_table *t)
{
	if (name)
		cache_folder_store(c->folder, name, t->words, t->len * sizeof(*t->words));
}

int unwind_cache_get(struct unwind_cache *c, const struct elf_file *f, struct unwind_table *ret,
		     bool *ret_hit, struct err *e)
{
	char *name = unwind_cache_name(f);
	bool hit = unwind_cache_load(c, name, ret);
	int rc = hit ? 0 : unwind_table_build(f, ret, NULL, e);

	/* a file that was written to meanwhile is not what its name says */
	if (rc == 0 && !hit && !elf_file_changed(f))
		unwind_cache_store(c, name, ret);
	if (ret_hit)
		*ret_hit = hit;
	free(name);
	return rc;
}
