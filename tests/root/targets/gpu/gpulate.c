/* gpulate.c - opens the driver late and launches at once: gpulate LIBRARY N. Prints
 * "launch ..." and "FUNCTION CALLS". */
#include <dlfcn.h>

#include "gpu.h"

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	unsigned n = (unsigned)atoi(argv[2]);
	usleep(200000);
	void *driver = dlopen(argv[1], RTLD_NOW);
	if (!driver) {
		fprintf(stderr, "gpulate: %s\n", dlerror());
		return 96;
	}
	__typeof__(cuModuleLoadData) *load = dlsym(driver, "cuModuleLoadData");
	__typeof__(cuModuleGetFunction) *get = dlsym(driver, "cuModuleGetFunction");
	__typeof__(cuLaunchKernel) *launch = dlsym(driver, "cuLaunchKernel");
	CUmodule module;
	CUfunction f;
	MUST(load(&module, "image"));
	MUST(get(&f, module, kernel_name(2)));
	for (unsigned i = 0; i < n; i++)
		MUST(launch(f, 3, 4, 5, 6, 7, 8, 9, NULL, NULL, NULL));
	say_launch(n, (dim3){3, 4, 5}, (dim3){6, 7, 8}, 9, NULL, kernel_name(2));
	return 0;
}
