/* files.c - the registry of mapped files. */
#include "probe/files.h"

#include <unistd.h>

static uint64_t inode_key(uint64_t device, uint64_t inode)
{
	return hash_u64(device) ^ inode;
}

struct probed_file *files_find(const struct files *fs, uint64_t device, uint64_t inode)
{
	uint64_t i;
	if (!map64_get(&fs->by_inode, inode_key(device, inode), &i))
		return NULL;
	return fs->list.data[i];
}

struct probed_file *files_add(struct files *fs, uint64_t device, uint64_t inode, const char *path)
{
	struct probed_file *f = xcalloc(1, sizeof(*f));
	f->device = device;
	f->inode = inode;
	f->path = xstrdup(path);
	f->fd = -1;
	map64_set(&fs->by_inode, inode_key(device, inode), fs->list.len);
	*vec_push(&fs->list) = f;
	return f;
}

void files_alias(struct files *fs, uint64_t device, uint64_t inode, const struct probed_file *f)
{
	for (size_t i = 0; i < fs->list.len; i++) {
		if (fs->list.data[i] == f)
			map64_set(&fs->by_inode, inode_key(device, inode), i);
	}
}

void files_free(struct files *fs)
{
	/* spans first: the exception guard must outlive every return probe */
	for (size_t i = 0; i < fs->list.len; i++) {
		struct probed_file *f = fs->list.data[i];
		for (size_t g = 0; g < f->groups.len; g++) {
			attach_detach(&f->groups.data[g].links);
			vec_free(&f->groups.data[g].sites);
		}
	}
	for (size_t i = 0; i < fs->list.len; i++) {
		struct probed_file *f = fs->list.data[i];
		attach_detach(&f->hooks);
		vec_free(&f->groups);
		vec_free(&f->results);
		if (f->fd >= 0)
			close(f->fd);
		free(f->path);
		free(f);
	}
	vec_free(&fs->list);
	map64_free(&fs->by_inode);
}
