/* late.c - loads a library late and calls it at once: late LIBRARY N [FUNCTION].
 *
 * The first call follows dlopen without a pause. With N negative the library is loaded,
 * called -N times and closed, twice. Prints "FUNCTION CALLS". */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void load_and_call(const char *path, const char *function, long n, int close)
{
	void *lib = dlopen(path, RTLD_NOW);
	if (!lib) {
		fprintf(stderr, "late: %s\n", dlerror());
		exit(96);
	}
	uint64_t (*fn)(uint64_t);
	*(void **)&fn = dlsym(lib, function);
	if (!fn)
		exit(96);
	for (long i = 0; i < n; i++)
		if (fn((uint64_t)i) != (uint64_t)i + 1)
			exit(99);
	if (close)
		dlclose(lib);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	const char *function = argc > 3 ? argv[3] : "target_push";
	long n = atol(argv[2]);
	if (n >= 0) {
		load_and_call(argv[1], function, n, 0);
		printf("%s %ld\n", function, n);
		return 0;
	}
	load_and_call(argv[1], function, -n, 1);
	load_and_call(argv[1], function, -n, 1);
	printf("%s %ld\n", function, -2 * n);
	return 0;
}
