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

#define OBJECT_BYTES 256 /* of a handle's object that are searched for the name */
#define LEAST_NAME   3

struct named {
	uint64_t key;
	uint64_t from_ns; /* what the handle meant from here on */
	uint64_t string;
	uint64_t asked;	 /* number of the question that it answered last */
	size_t previous; /* what it meant before: index in list + 1, 0 = unknown */
};

struct kernels {
	VEC(struct named) list;
	struct map64 newest; /* process and handle -> index in list */
	uint64_t questions;
	int name_at;   /* offset of the name's address in the object, -1 unknown */
	bool by_known; /* name_at was found with a kernel of known name */
};

struct kernels *kernels_new(void)
{
	struct kernels *k = xcalloc(1, sizeof(*k));
	k->name_at = -1;
	return k;
}

void kernels_free(struct kernels *k)
{
	vec_free(&k->list);
	map64_free(&k->newest);
	free(k);
}

static uint64_t key_of(struct pipeline *p, uint32_t tgid, uint64_t handle)
{
	size_t serial = (size_t)(pipeline_process_of(p, tgid) - p->process_list.data);
	return hash_u64(serial) ^ hash_u64(handle ^ (uint64_t)serial << 48);
}

/* What a handle meant at a time. Of a pass all namings are taken note of before the launches
 * between them, a handle may be given again, and that a process has become another program
 * is told late: times tell. */
static bool name_at(struct pipeline *p, uint32_t tgid, uint64_t handle, uint64_t time_ns,
		    uint64_t *ret)
{
	struct kernels *k = p->kernels;
	uint64_t newest, exec_ns = pipeline_process_of(p, tgid)->exec_ns;
	if (!map64_get(&k->newest, key_of(p, tgid, handle), &newest))
		return false;
	for (size_t i = (size_t)newest + 1; i; i = k->list.data[i - 1].previous) {
		struct named *n = &k->list.data[i - 1];
		if (n->from_ns > time_ns)
			continue;
		if (time_ns >= exec_ns && n->from_ns < exec_ns)
			return false; /* of the program that was there before */
		n->asked = ++k->questions;
		*ret = n->string;
		return true;
	}
	return false;
}

/* Puts the one at an index among those of its handle, by time. */
static void link_named(struct kernels *k, size_t index)
{
	struct named *n = &k->list.data[index];
	uint64_t newest;
	bool any = map64_get(&k->newest, n->key, &newest);
	if (!any || k->list.data[newest].from_ns <= n->from_ns) {
		n->previous = any ? (size_t)newest + 1 : 0;
		map64_set(&k->newest, n->key, index);
		return;
	}
	struct named *later = &k->list.data[newest];
	while (later->previous && k->list.data[later->previous - 1].from_ns > n->from_ns)
		later = &k->list.data[later->previous - 1];
	n->previous = later->previous;
	later->previous = index + 1;
}

static void put(struct pipeline *p, uint32_t tgid, uint64_t handle, uint64_t from_ns,
		uint64_t string)
{
	struct kernels *k = p->kernels;
	uint64_t known;
	if (name_at(p, tgid, handle, from_ns, &known) && known == string)
		return;
	*vec_push(&k->list) = (struct named){.key = key_of(p, tgid, handle),
					     .from_ns = from_ns,
					     .string = string,
					     .asked = ++k->questions};
	link_named(k, k->list.len - 1);
}

void kernels_forget(struct kernels *k, size_t most)
{
	size_t kept = 0;
	if (k->list.len <= most)
		return;
	uint64_t *asked = xcalloc(k->list.len, sizeof(*asked));
	for (size_t i = 0; i < k->list.len; i++)
		asked[i] = k->list.data[i].asked;
	uint64_t since = forget_since(asked, k->list.len, most / 2);
	free(asked);
	for (size_t i = 0; i < k->list.len; i++)
		if (k->list.data[i].asked >= since)
			k->list.data[kept++] = k->list.data[i];
	k->list.len = kept;
	map64_free(&k->newest);
	for (size_t i = 0; i < kept; i++)
		link_named(k, i);
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

static uint64_t put_name(struct pipeline *p, uint32_t tgid, uint64_t handle, uint64_t from_ns,
			 const char *symbol)
{
	char *name = namer_demangle(p, tgid, symbol);
	uint64_t string = rec_string_z(p->writer, name);
	free(name);
	put(p, tgid, handle, from_ns, string);
	return string;
}

void kernels_name(struct pipeline *p, uint32_t tgid, uint64_t handle, uint64_t time_ns,
		  const char *symbol)
{
	put_name(p, tgid, handle, time_ns, symbol);
	if (!p->kernels->by_known)
		calibrate(p->kernels, tgid, handle, symbol);
}

void kernels_alias(struct pipeline *p, uint32_t tgid, uint64_t function, uint64_t kernel,
		   uint64_t time_ns)
{
	uint64_t string;
	if (name_at(p, tgid, kernel, time_ns, &string))
		put(p, tgid, function, time_ns, string);
}

static bool find_in_memory(struct pipeline *p, uint32_t tgid, uint64_t handle, uint64_t from_ns,
			   uint64_t *ret)
{
	struct kernels *k = p->kernels;
	uint8_t object[OBJECT_BYTES];
	char name[TEXT_BYTES];
	if (k->name_at < 0)
		calibrate(k, tgid, handle, NULL);
	if (k->name_at < 0 || !pipeline_read_memory(tgid, handle, object, (size_t)k->name_at + 8) ||
	    !name_behind(tgid, object, k->name_at, name))
		return false;
	*ret = put_name(p, tgid, handle, from_ns, name);
	return true;
}

bool kernels_find(struct pipeline *p, uint32_t tgid, uint64_t handle, uint64_t time_ns,
		  enum kernel_effort effort, uint64_t *ret)
{
	if (name_at(p, tgid, handle, time_ns, ret))
		return true;
	if (effort == KERNEL_KNOWN)
		return false;
	/* it was named before we looked, but by the program that was there at that time */
	uint64_t exec_ns = pipeline_process_of(p, tgid)->exec_ns;
	uint64_t from_ns = exec_ns <= time_ns ? exec_ns : 0;
	if (exec_ns <= time_ns && find_in_memory(p, tgid, handle, from_ns, ret))
		return true;
	if (effort == KERNEL_IN_MEMORY)
		return false;
	char text[32];
	snprintf(text, sizeof(text), "kernel 0x%lx", (unsigned long)handle);
	*ret = rec_string_z(p->writer, text);
	put(p, tgid, handle, from_ns, *ret);
	return true;
}
