/* find.c - looks for libcupti where CUDA and PyTorch's wheels put it. */
#include "find.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *const sonames[] = {"libcupti.so.13", "libcupti.so.12"};
#define SONAMES (sizeof(sonames) / sizeof(sonames[0]))

/* From the folder of libcudart.so: in NVIDIA's wheels for CUDA 13, for CUDA 12 (where each
 * library has a folder), and in a toolkit. */
static const char *const beside_runtime[] = {"", "../../cuda_cupti/lib/", "../extras/CUPTI/lib64/"};

static const char *const folders[] = {"", "/usr/local/cuda/lib64/",
				      "/usr/local/cuda/extras/CUPTI/lib64/"};

static void *open_in(const char *folder, size_t folder_len, const char *below)
{
	char path[4096];
	void *handle = NULL;
	for (size_t i = 0; i < SONAMES && !handle; i++) {
		int n = snprintf(path, sizeof(path), "%.*s%s%s", (int)folder_len, folder, below,
				 sonames[i]);
		if (n > 0 && (size_t)n < sizeof(path))
			handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	return handle;
}

static void *open_loaded(void)
{
	void *handle = NULL;
	for (size_t i = 0; i < SONAMES && !handle; i++)
		handle = dlopen(sonames[i], RTLD_NOW | RTLD_NOLOAD);
	return handle;
}

struct runtime {
	char folder[4096]; /* with the slash; "" = none is loaded */
};

/* Nothing is opened in here: the loader's lock is held. */
static int is_runtime(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct runtime *ret = arg;
	const char *slash = strrchr(info->dlpi_name, '/');
	(void)size;
	if (!slash || strncmp(slash + 1, "libcudart.so", 12) != 0)
		return 0;
	snprintf(ret->folder, sizeof(ret->folder), "%.*s", (int)(slash + 1 - info->dlpi_name),
		 info->dlpi_name);
	return 1;
}

static void *open_beside_runtime(void)
{
	struct runtime runtime = {0};
	void *handle = NULL;
	if (!dl_iterate_phdr(is_runtime, &runtime))
		return NULL;
	for (size_t i = 0; i < sizeof(beside_runtime) / sizeof(beside_runtime[0]) && !handle; i++)
		handle = open_in(runtime.folder, strlen(runtime.folder), beside_runtime[i]);
	return handle;
}

static void *open_anywhere(void)
{
	void *handle = NULL;
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]) && !handle; i++)
		handle = open_in(folders[i], strlen(folders[i]), "");
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
	*ret = (struct cupti){.handle = open_loaded()};
	if (!ret->handle)
		ret->handle = open_beside_runtime();
	if (!ret->handle)
		ret->handle = open_anywhere();
	if (!ret->handle)
		return "libcupti.so.13 or .12 is neither in the process nor beside its CUDA "
		       "runtime nor on the host: it comes with the CUDA toolkit and with PyTorch";
	if (!look_up(ret))
		return "its libcupti lacks functions of CUDA 11.1 and later";
	if (dladdr(*(void **)&ret->ActivityEnable, &info) && info.dli_fname)
		snprintf(path, size, "%s", info.dli_fname);
	return NULL;
}
