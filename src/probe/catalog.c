/* catalog.c - the catalog as a whole: entries from files, folders, the built-in texts and
 * --probe; their life and death.
 *
 * The YAML is read in catalog_yaml.c, descriptions in signature.c. */
#include "probe/catalog.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/map64.h"
#include "probe/catalog_impl.h"

_Static_assert(LAYER_NAMED < LAYERS_MAX, "layers of catalogs have numbers too");

int catalog_layer(const struct catalog *c, const char *name)
{
	enum layer known = layer_of_name(name);
	if (known < LAYER_NAMED)
		return layer_traits(known) & LAYER_IS_CHOSEN ? (int)known : -ENOENT;
	for (size_t i = 0; i < c->layers.len; i++)
		if (strcmp(name, c->layers.data[i]) == 0)
			return LAYER_NAMED + (int)i;
	return -ENOENT;
}

const char *catalog_layer_name(const struct catalog *c, enum layer layer)
{
	size_t named = (size_t)layer - LAYER_NAMED;
	return layer >= LAYER_NAMED && named < c->layers.len ? c->layers.data[named]
							     : layer_name(layer);
}

bool cat_entry_is_users(const struct cat_entry *entry)
{
	return layer_traits(entry->layer) & LAYER_IS_USERS ||
	       (entry->layer >= LAYER_NAMED &&
		strncmp(entry->origin, CATALOG_BUILTIN, strlen(CATALOG_BUILTIN)) != 0);
}

void cat_list_add(struct cat_list *l, const char *s, size_t n)
{
	char *copy = xcalloc(n + 1, 1);
	memcpy(copy, s, n);
	*vec_push(l) = copy;
}

static void list_free(struct cat_list *l)
{
	for (size_t i = 0; i < l->len; i++)
		free(l->data[i]);
	vec_free(l);
}

void cat_args_free(struct cat_entry *entry)
{
	for (unsigned i = 0; i < entry->nargs; i++) {
		free(entry->args[i].name);
		free(entry->args[i].enum_type);
	}
}

void cat_entry_free(struct cat_entry *entry)
{
	free(entry->id);
	list_free(&entry->libraries);
	list_free(&entry->symbols);
	list_free(&entry->exclude);
	list_free(&entry->end_symbols);
	list_free(&entry->verified);
	free(entry->unless);
	free(entry->name);
	cat_args_free(entry);
	free(entry->role);
	for (int i = 0; i < CAT_FACTORS; i++)
		free(entry->factors[i]);
	free(entry->about);
	free(entry->origin);
	memset(entry, 0, sizeof(*entry));
}

struct cat_mark cat_mark(const struct catalog *c)
{
	return (struct cat_mark){c->entries.len, c->enums.len, c->layers.len};
}

void cat_truncate(struct catalog *c, struct cat_mark mark)
{
	while (c->entries.len > mark.entries)
		cat_entry_free(&c->entries.data[--c->entries.len]);
	while (c->enums.len > mark.enums) {
		struct cat_enum *v = &c->enums.data[--c->enums.len];
		free(v->type);
		free(v->name);
	}
	while (c->layers.len > mark.layers)
		free(c->layers.data[--c->layers.len]);
}

void catalog_free(struct catalog *c)
{
	cat_truncate(c, (struct cat_mark){0, 0, 0});
	vec_free(&c->layers);
	vec_free(&c->entries);
	vec_free(&c->enums);
}

const struct cat_entry *catalog_find(const struct catalog *c, const char *id)
{
	for (size_t i = 0; i < c->entries.len; i++)
		if (strcmp(c->entries.data[i].id, id) == 0)
			return &c->entries.data[i];
	return NULL;
}

/* Reads at most one byte more than is allowed, so that too much can be told. */
static int read_all(FILE *f, struct buf *b)
{
	buf_reserve(b, 4096);
	while (b->len <= CATALOG_MAX_BYTES) {
		size_t n = fread(b->data + b->len, 1, b->cap - b->len, f);
		b->len += n;
		if (n == 0)
			break;
		buf_reserve(b, 4096);
	}
	return ferror(f) ? -errno : 0;
}

int catalog_load_file(struct catalog *c, const char *path, struct err *e)
{
	FILE *f = fopen(path, "re");
	if (!f)
		return err_set(e, errno, "%s: %s", path, strerror(errno));
	struct buf text = {0};
	errno = EIO;
	int rc = read_all(f, &text);
	if (rc)
		rc = err_set(e, -rc, "%s: %s", path, strerror(-rc));
	else
		rc = catalog_parse(c, (const char *)text.data, text.len, path, e);
	if (!rc)
		c->files_sum = hash_u64(c->files_sum ^ hash_bytes(text.data, text.len));
	fclose(f);
	buf_free(&text);
	return rc;
}

static bool has_suffix(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);
	return n > m && strcmp(s + n - m, suffix) == 0;
}

static int is_catalog_file(const struct dirent *d)
{
	return d->d_name[0] != '.' &&
	       (has_suffix(d->d_name, ".yaml") || has_suffix(d->d_name, ".yml"));
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

int catalog_load_dir(struct catalog *c, const char *path, struct err *e)
{
	struct dirent **names;
	int n = scandir(path, &names, is_catalog_file, by_name);
	if (n < 0)
		return errno == ENOENT ? 0 : err_set(e, errno, "%s: %s", path, strerror(errno));
	struct cat_mark before = cat_mark(c);
	int rc = 0;
	for (int i = 0; i < n; i++) {
		char *file = xasprintf("%s/%s", path, names[i]->d_name);
		struct stat st;
		/* A FIFO would block, a folder cannot be read. */
		if (rc == 0 && (stat(file, &st) != 0 || S_ISREG(st.st_mode)))
			rc = catalog_load_file(c, file, e);
		free(file);
		free(names[i]);
	}
	free(names);
	if (rc)
		cat_truncate(c, before);
	return rc;
}

int catalog_load_builtin(struct catalog *c, struct err *e)
{
	struct cat_mark before = cat_mark(c);
	for (size_t i = 0; i < catalog_builtins_len; i++) {
		const struct catalog_builtin *b = &catalog_builtins[i];
		char *origin = xasprintf(CATALOG_BUILTIN "%s", b->name);
		int rc = catalog_parse(c, (const char *)b->text, b->len, origin, e);
		free(origin);
		if (rc) {
			cat_truncate(c, before);
			return rc;
		}
	}
	return 0;
}

void catalog_leave_out(struct catalog *c, const char *id)
{
	for (size_t i = 0; i < c->entries.len; i++) {
		if (strcmp(c->entries.data[i].id, id) != 0)
			continue;
		cat_entry_free(&c->entries.data[i]);
		c->entries.len--;
		memmove(&c->entries.data[i], &c->entries.data[i + 1],
			(c->entries.len - i) * sizeof(c->entries.data[0]));
		return;
	}
}
