/* kernels.c - names of CUDA kernels by the handles that launches carry.
 *
 * Kernels that are first used while we trace are named by the driver's naming calls
 * (cuLibraryGetKernel, cuModuleGetFunction). Those that were named before we attached are
 * read from the process: the objects behind CUkernel and CUfunction hold a pointer to the
 * mangled name. Where in the object is not documented, so the place is calibrated: by a
 * kernel whose name is known, else by the first place that gives a believable name. It was
 * 8 bytes in with driver 580, for both kinds of handle. Each name that is read is checked
 * again. Nothing is written, nothing is called. */
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "pipeline/pipeline_impl.h"
#include "symbolize/demangle.h"

#define OBJECT_BYTES 256 /* of a handle's object that are searched for the name */
#define LEAST_NAME   3

struct kernels {
	struct map64 names; /* process and handle -> string */
	int name_at;	    /* offset of the name's address in the object, -1 unknown */
	bool by_known;	    /* name_at was found with a kernel of known name */
	uint64_t made_up;
};

struct kernels *kernels_new(void)
{
	struct kernels *k = xcalloc(1, sizeof(*k));
	k->name_at = -1;
	return k;
}

void kernels_free(struct kernels *k)
{
	map64_free(&k->names);
	free(k);
}

static uint64_t key_of(struct pipeline *p, uint32_t tgid, uint64_t handle)
{
	return hash_u64(pipeline_process_key(p, tgid) ^ hash_u64(handle));
}

/* A kernel's symbol: mangled, or as the compiler of another language named it. */
static bool believable(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$.@");
	return !s[n] && n >= LEAST_NAME && (s[0] < '0' || s[0] > '9');
}

static bool read_name(uint32_t tgid, uint64_t address, char ret[TEXT_BYTES])
{
	size_t got = 0;
	while (got < TEXT_BYTES) { /* up to the end of a page at a time */
		size_t n = 4096 - ((address + got) & 4095);
		if (n > TEXT_BYTES - got)
			n = TEXT_BYTES - got;
		if (!pipeline_read_memory(tgid, address + got, ret + got, n))
			return false;
		if (memchr(ret + got, 0, n))
			return believable(ret);
		got += n;
	}
	return false;
}

static bool name_behind(uint32_t tgid, const uint8_t *object, int at, char ret[TEXT_BYTES])
{
	uint64_t address;
	memcpy(&address, object + at, sizeof(address));
	return address >= 4096 && read_name(tgid, address, ret);
}

/* Finds where objects have their name; want: the name of this one, NULL where unknown. */
static void calibrate(struct kernels *k, uint32_t tgid, uint64_t handle, const char *want)
{
	uint8_t object[OBJECT_BYTES];
	char name[TEXT_BYTES];
	if (!pipeline_read_memory(tgid, handle, object, sizeof(object)))
		return;
	for (int at = 0; at + 8 <= OBJECT_BYTES; at += 8) {
		if (!name_behind(tgid, object, at, name) || (want && strcmp(name, want)))
			continue;
		k->name_at = at;
		k->by_known = want != NULL;
		return;
	}
}

static uint64_t put_name(struct pipeline *p, uint32_t tgid, uint64_t handle, const char *symbol)
{
	char *name = demangle(symbol, 1);
	uint64_t string = rec_string_z(p->writer, name);
	free(name);
	map64_set(&p->kernels->names, key_of(p, tgid, handle), string);
	return string;
}

void kernels_name(struct pipeline *p, uint32_t tgid, uint64_t handle, const char *symbol)
{
	put_name(p, tgid, handle, symbol);
	if (!p->kernels->by_known)
		calibrate(p->kernels, tgid, handle, symbol);
}

void kernels_alias(struct pipeline *p, uint32_t tgid, uint64_t function, uint64_t kernel)
{
	uint64_t string;
	if (map64_get(&p->kernels->names, key_of(p, tgid, kernel), &string))
		map64_set(&p->kernels->names, key_of(p, tgid, function), string);
}

static bool find_in_memory(struct pipeline *p, uint32_t tgid, uint64_t handle, uint64_t *ret)
{
	struct kernels *k = p->kernels;
	uint8_t object[OBJECT_BYTES];
	char name[TEXT_BYTES];
	if (k->name_at < 0)
		calibrate(k, tgid, handle, NULL);
	if (k->name_at < 0 || !pipeline_read_memory(tgid, handle, object, (size_t)k->name_at + 8) ||
	    !name_behind(tgid, object, k->name_at, name))
		return false;
	*ret = put_name(p, tgid, handle, name);
	return true;
}

bool kernels_find(struct pipeline *p, uint32_t tgid, uint64_t handle, bool force, uint64_t *ret)
{
	if (map64_get(&p->kernels->names, key_of(p, tgid, handle), ret))
		return true;
	if (!force)
		return false;
	if (find_in_memory(p, tgid, handle, ret))
		return true;
	char text[32];
	snprintf(text, sizeof(text), "kernel 0x%lx", (unsigned long)handle);
	*ret = rec_string_z(p->writer, text);
	map64_set(&p->kernels->names, key_of(p, tgid, handle), *ret);
	p->kernels->made_up++;
	return true;
}
