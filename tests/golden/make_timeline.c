/* make_timeline.c - writes the recording of timeline_sample.h to the path given. */
#include <stdio.h>

#include "timeline_sample.h"

int main(int argc, char **argv)
{
	struct err e = {0};
	if (argc != 2) {
		fprintf(stderr, "usage: make_timeline FILE\n");
		return 2;
	}
	if (timeline_sample_write(argv[1], &e)) {
		fprintf(stderr, "make_timeline: %s\n", e.msg);
		return 1;
	}
	return 0;
}
