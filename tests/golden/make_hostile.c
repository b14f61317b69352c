/* make_hostile.c - writes one of the samples to the path given; hostile_strings.c is linked with
 * it. */
#include <stdio.h>
#include <string.h>

#include "gpu_sample.h"
#include "profile_sample.h"
#include "sample.h"
#include "timeline_sample.h"

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*write)(const char *path, struct err *e);
	} samples[] = {{"plain", sample_write},
		       {"profile", profile_sample_write},
		       {"gpu", gpu_sample_write},
		       {"timeline", timeline_sample_write}};
	struct err e = {0};
	for (size_t i = 0; argc == 3 && i < sizeof(samples) / sizeof(samples[0]); i++) {
		if (strcmp(argv[1], samples[i].name) != 0)
			continue;
		if (!samples[i].write(argv[2], &e))
			return 0;
		fprintf(stderr, "make_hostile: %s\n", e.msg);
		return 1;
	}
	fprintf(stderr, "usage: make_hostile plain|profile|gpu|timeline FILE\n");
	return 2;
}
