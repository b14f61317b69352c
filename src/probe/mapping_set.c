/* mapping_set.c - which file each mapping of a process is, remembered from one look to the next:
 * telling files apart takes a stat for each.
 *
 * The file of a mapping that stayed is still the same. While a process has a file mapped, its inode
 * is open in the registry of files (files.h), so that no other file gets its number. A file that
 * is written over in place while it stays mapped keeps the rules that it was mapped with: what runs
 * there was relocated, and is being returned into, as the old file had it. Whoever maps the file
 * from then on gets rules of its own. */
#include "probe/mapping_set.h"

void mapping_set_add(struct mapping_set *s, const struct proc_map *m, struct unwind_file *file)
{
	struct mapped_code *c = vec_push(&s->maps);
	*c = (struct mapped_code){.map = *m, .file = file};
	c->map.path = NULL;
}

void mapping_set_free(struct mapping_set *s)
{
	for (size_t i = 0; i < s->maps.len; i++)
		if (s->maps.data[i].file)
			unwind_file_unref(s->maps.data[i].file);
	vec_free(&s->maps);
	free(s);
}

bool mapping_set_is(const struct mapping_set *s, const proc_maps_t *maps)
{
	if (s->maps.len != maps->len)
		return false;
	for (size_t i = 0; i < maps->len; i++) {
		const struct mapped_code *c = &s->maps.data[i];
		bool lacks_file = !c->file && c->map.inode;
		if (lacks_file || !proc_map_same(&c->map, &maps->data[i]))
			return false;
	}
	return true;
}

struct unwind_file *mapping_set_file(const struct mapping_set *s, const struct proc_map *m)
{
	size_t low = 0, high = s ? s->maps.len : 0;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct mapped_code *c = &s->maps.data[middle];
		if (proc_map_same(&c->map, m))
			return c->file;
		if (c->map.start < m->start)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

const struct mapped_code *mapping_set_at(const struct mapping_set *s, uint64_t address)
{
	size_t low = 0, high = s->maps.len;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct mapped_code *c = &s->maps.data[middle];
		if (address < c->map.start)
			high = middle;
		else if (address >= c->map.end)
			low = middle + 1;
		else
			return c;
	}
	return NULL;
}

bool mapping_set_pending(const struct mapping_set *s)
{
	for (size_t i = 0; i < s->maps.len; i++)
		if (s->maps.data[i].file && unwind_file_pending(s->maps.data[i].file))
			return true;
	return false;
}
