/* make_recording.c - writes the sample of sample.h to the path given.
 *
 * Made tests/golden/recordings/v1.eacgm once. That file is never made again: it stands for
 * what the first released version wrote, and later versions must read it. */
#include <stdio.h>

#include "sample.h"

int main(int argc, char **argv)
{
	struct err e = {0};
	if (argc != 2) {
		fprintf(stderr, "usage: make_recording FILE\n");
		return 2;
	}
	if (sample_write(argv[1], &e)) {
		fprintf(stderr, "make_recording: %s\n", e.msg);
		return 1;
	}
	return 0;
}
