/* nvml_library.c - opens NVIDIA's management library and looks up its functions. It knows
 * nothing of GPUs. */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "collect/nvml_impl.h"

/* Where containers and node images put it without telling the dynamic linker. */
static const char *const places[] = {
	NVML_LIBRARY,
	"/usr/local/nvidia/lib64/" NVML_LIBRARY,
	"/run/nvidia/driver/usr/lib/x86_64-linux-gnu/" NVML_LIBRARY,
};

static int no_library(const char *library, struct err *e)
{
	if (library)
		return err_set(e, ENOENT, "cannot open NVIDIA's management library: %s", dlerror());
	return err_set(e, ENOENT,
		       "no GPU telemetry: %s is not on this host; it comes with the NVIDIA driver, "
		       "in a container with the capability 'utility'",
		       NVML_LIBRARY);
}

static void look_up(struct nvml_library *lib)
{
	/* POSIX lets dlsym's result be stored so; ISO C has no cast from object to function */
#define NVML_LOOK_UP(name, args) *(void **)&lib->name = dlsym(lib->handle, "nvml" #name);
	NVML_FUNCTIONS(NVML_LOOK_UP)
#undef NVML_LOOK_UP
	*(void **)&lib->ErrorString = dlsym(lib->handle, "nvmlErrorString");
}

int nvml_library_open(struct nvml_library *lib, const char *library, struct err *e)
{
	if (library) {
		lib->handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	} else {
		for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && !lib->handle; i++)
			lib->handle = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
	}
	if (!lib->handle)
		return no_library(library, e);
	look_up(lib);
	if (lib->Init_v2 && lib->Shutdown && lib->DeviceGetCount_v2 &&
	    lib->DeviceGetHandleByIndex_v2 && lib->DeviceGetUUID)
		return 0;
	nvml_library_close(lib);
	return err_set(e, EINVAL,
		       "%s is not NVIDIA's management library, or is older than driver 450: it "
		       "cannot list GPUs",
		       library ? library : NVML_LIBRARY);
}

void nvml_library_close(struct nvml_library *lib)
{
	if (lib->handle)
		dlclose(lib->handle);
	memset(lib, 0, sizeof(*lib));
}

const char *nvml_text(const struct nvml_library *lib, int rc)
{
	const char *text = lib->ErrorString ? lib->ErrorString(rc) : NULL;
	return text ? text : "unknown error";
}

int nvml_start(const struct nvml_library *lib, struct err *e)
{
	int rc = lib->Init_v2();
	switch (rc) {
	case NVML_OK:
		return 0;
	case NVML_DRIVER_NOT_LOADED:
		return err_set(e, ENODEV, "no GPU telemetry: the NVIDIA driver is not loaded");
	case NVML_NO_PERMISSION:
		return err_set(e, EACCES,
			       "no GPU telemetry: /dev/nvidiactl may not be opened; run as root or "
			       "give the container its GPUs");
	case NVML_LIB_RM_VERSION_MISMATCH:
		return err_set(e, EIO,
			       "no GPU telemetry: the loaded NVIDIA driver and its library are of "
			       "different versions; reload the driver or restart the host");
	default:
		return err_set(e, EIO,
			       "no GPU telemetry: NVIDIA's management library does not start: %s",
			       nvml_text(lib, rc));
	}
}

bool nvml_means_never(int rc)
{
	return rc == NVML_NOT_SUPPORTED || rc == NVML_FUNCTION_NOT_FOUND ||
	       rc == NVML_INVALID_ARGUMENT || rc == NVML_NO_PERMISSION || rc == NVML_DEPRECATED ||
	       rc == NVML_ARGUMENT_VERSION_MISMATCH;
}

bool nvml_means_lost(int rc)
{
	return rc == NVML_GPU_IS_LOST || rc == NVML_RESET_REQUIRED;
}
