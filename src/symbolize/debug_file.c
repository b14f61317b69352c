/* debug_file.c - ROOT/.build-id/ab/cdef....debug (GDB's documentation, "Debugging Information in
 * Separate Files"), then debuginfod by its client library. */
#include "symbolize/debug_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"

/* <elfutils/debuginfod.h>; the library is loaded when it is asked for, so that nobody else
 * needs it. */
typedef void *debuginfod_begin_fn(void);
typedef int debuginfod_find_fn(void *client, const unsigned char *build_id, int len, char **path);
typedef void debuginfod_end_fn(void *client);

struct debug_files {
	char *root;
	void *library;
	void *client;
	debuginfod_find_fn *find;
	debuginfod_end_fn *end;
};

static int open_client(struct debug_files *d, struct err *e)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	if (!urls || !urls[0])
		return err_set(e, ENOENT, "DEBUGINFOD_URLS is not set: no server is asked");
	d->library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!d->library)
		return err_set(e, ENOENT, "libdebuginfod.so.1 is not installed");
	debuginfod_begin_fn *begin = (debuginfod_begin_fn *)dlsym(d->library, "debuginfod_begin");
	d->find = (debuginfod_find_fn *)dlsym(d->library, "debuginfod_find_debuginfo");
	d->end = (debuginfod_end_fn *)dlsym(d->library, "debuginfod_end");
	d->client = begin && d->find && d->end ? begin() : NULL;
	return d->client ? 0 : err_set(e, EIO, "libdebuginfod.so.1 cannot be used");
}

struct debug_files *debug_files_open(const char *root, bool ask_servers, struct err *e)
{
	struct debug_files *d = xcalloc(1, sizeof(*d));
	d->root = xstrdup(root ? root : "/usr/lib/debug");
	e->msg[0] = 0;
	if (ask_servers)
		open_client(d, e);
	return d;
}

void debug_files_close(struct debug_files *d)
{
	if (!d)
		return;
	if (d->client)
		d->end(d->client);
	/* the library stays loaded: its threads and libcurl's are not made to be unloaded */
	free(d->root);
	free(d);
}

static struct elf_file *open_with_symbols(const char *path, const char *build_id)
{
	struct elf_file *f = NULL;
	struct err e;
	if (elf_file_open(&f, path, &e))
		return NULL;
	if (elf_file_has_symtab(f) && !strcmp(elf_file_build_id(f), build_id))
		return f;
	elf_file_close(f);
	return NULL;
}

static struct elf_file *ask_servers(const struct debug_files *d, const char *build_id)
{
	char *path = NULL;
	/* a length of 0: the build id is hexadecimal text */
	int fd = d->find(d->client, (const unsigned char *)build_id, 0, &path);
	struct elf_file *f = NULL;
	if (fd >= 0) {
		close(fd);
		f = open_with_symbols(path, build_id);
	}
	free(path);
	return f;
}

struct elf_file *debug_files_find(struct debug_files *d, const char *build_id)
{
	if (strlen(build_id) < 8)
		return NULL;
	char *path = xasprintf("%s/.build-id/%.2s/%s.debug", d->root, build_id, build_id + 2);
	struct elf_file *f = open_with_symbols(path, build_id);
	free(path);
	return f || !d->client ? f : ask_servers(d, build_id);
}
