/* find.c - looks for libcupti where CUDA and PyTorch's wheels put it. */
#include "find.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAJORS 2 /* of CUDA: the process's runtime's first, else the newest */

struct search {
	int majors[MAJORS];
	char runtime[4096]; /* folder of libcudart.so, with the slash; "" = none is loaded */
};

/* From the folder of libcudart.so: in NVIDIA's wheels for CUDA 13, for CUDA 12 (where each
 * library has a folder), and in a toolkit. */
static const char *const beside_runtime[] = {"", "../../cuda_cupti/lib/", "../extras/CUPTI/lib64/"};

static const char *const folders[] = {"", "/usr/local/cuda/lib64/",
				      "/usr/local/cuda/extras/CUPTI/lib64/"};

static void *open_in(const struct search *s, const char *folder, const char *below, int flags)
{
	char path[8192];
	void *handle = NULL;
	for (int i = 0; i < MAJORS && !handle; i++) {
		snprintf(path, sizeof(path), "%s%slibcupti.so.%d", folder, below, s->majors[i]);
		handle = dlopen(path, flags);
	}
	return handle;
}

/* Nothing is opened in here: the loader's lock is held. */
static int is_runtime(struct dl_phdr_info *info, size_t size, void *arg)
{
	static const char name[] = "libcudart.so.";
	struct search *s = arg;
	const char *slash = strrchr(info->dlpi_name, '/');
	(void)size;
	if (!slash || strncmp(slash + 1, name, sizeof(name) - 1) != 0)
		return 0;
	snprintf(s->runtime, sizeof(s->runtime), "%.*s", (int)(slash + 1 - info->dlpi_name),
		 info->dlpi_name);
	if (atoi(slash + sizeof(name)) == 12) {
		s->majors[0] = 12;
		s->majors[1] = 13;
	}
	return 1;
}

static void *open_beside_runtime(const struct search *s)
{
	void *handle = NULL;
	for (size_t i = 0; i < sizeof(beside_runtime) / sizeof(beside_runtime[0]) && !handle; i++)
		handle = open_in(s, s->runtime, beside_runtime[i], RTLD_NOW | RTLD_LOCAL);
	return handle;
}

static void *open_anywhere(const struct search *s)
{
	void *handle = NULL;
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]) && !handle; i++)
		handle = open_in(s, folders[i], "", RTLD_NOW | RTLD_LOCAL);
	return handle;
}

static bool look_up(struct cupti *c)
{
	/* POSIX lets dlsym's result be stored so; ISO C has no cast from object to function */
#define LOOK_UP(name, args) *(void **)&c->name = dlsym(c->handle, "cupti" #name);
	CUPTI_FUNCTIONS(LOOK_UP)
	CUPTI_OPTIONAL_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
#define IS_THERE(name, args) &&c->name
	return true CUPTI_FUNCTIONS(IS_THERE);
#undef IS_THERE
}

const char *cupti_find(struct cupti *ret, char *path, size_t size)
{
	Dl_info info;
	struct search s = {.majors = {13, 12}};
	dl_iterate_phdr(is_runtime, &s);
	*ret = (struct cupti){.handle = open_in(&s, "", "", RTLD_NOW | RTLD_NOLOAD)};
	if (!ret->handle && s.runtime[0])
		ret->handle = open_beside_runtime(&s);
	if (!ret->handle)
		ret->handle = open_anywhere(&s);
	if (!ret->handle)
		return "libcupti.so.13 or .12 is neither in the process nor beside its CUDA "
		       "runtime nor on the host: it comes with the CUDA toolkit and with PyTorch";
	if (!look_up(ret))
		return "its libcupti lacks functions of CUDA 11.1 and later";
	if (dladdr(*(void **)&ret->ActivityEnable, &info) && info.dli_fname)
		snprintf(path, size, "%s", info.dli_fname);
	return NULL;
}
