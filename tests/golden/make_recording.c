/* make_recording.c - writes the sample of sample.h, or that of profile_sample.h, to the path
 * given.
 *
 * Made tests/golden/recordings/v1.eacgm and v1_profile.eacgm once. Those files are never made
 * again: they stand for what the first versions of the format (1.1 and 1.2) wrote, and later
 * versions must read them. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "profile_sample.h"
#include "sample.h"

int main(int argc, char **argv)
{
	struct err e = {0};
	bool profile = argc == 3 && !strcmp(argv[1], "--profile");
	if (argc != 2 && !profile) {
		fprintf(stderr, "usage: make_recording [--profile] FILE\n");
		return 2;
	}
	if (profile ? profile_sample_write(argv[2], &e) : sample_write(argv[1], &e)) {
		fprintf(stderr, "make_recording: %s\n", e.msg);
		return 1;
	}
	return 0;
}
