/* short.c - launches a kernel and is gone: short [N]. With N, becomes itself by exec N times
 * first, each of which launches a kernel of its own under what may be the same handle. Prints
 * "launch ..." for each. */
#include <sys/personality.h>

#include "gpu.h"

int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
	CUmodule module;
	CUfunction f;
	dim3 one = {1, 1, 1};
	MUST(cuInit(0));
	MUST(cuModuleLoadData(&module, "image"));
	MUST(cuModuleGetFunction(&f, module, kernel_name(n % KERNELS)));
	MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	say_launch(1, one, one, 0, NULL, kernel_name(n % KERNELS));
	fflush(stdout);
	if (n) {
		char text[16];
		snprintf(text, sizeof(text), "%u", n - 1);
		personality(ADDR_NO_RANDOMIZE); /* the next one has its heap where ours was */
		execl(argv[0], argv[0], text, (char *)NULL);
		return 97;
	}
	_exit(0);
}
