/* make_hostile.c - writes one of the samples to the path given, or a recording with a call of each
 * name that is given; hostile_strings.c is linked with it, and leaves such names as they are. */
#include <stdio.h>
#include <string.h>

#include "gpu_sample.h"
#include "profile_sample.h"
#include "sample.h"
#include "timeline_sample.h"

static int write_names(const char *path, char **names, int n, struct err *e)
{
	struct rec_writer *w;
	int rc = rec_writer_open(&w, path, NULL, e);
	if (rc)
		return rc;
	rec_add_thread(w, &(struct m_thread){.pid = 1, .tid = 1, .comm = rec_string_z(w, "t")});
	for (int i = 0; i < n; i++) {
		struct m_probe probe = {.name = rec_string_z(w, names[i]), .name_arg = -1};
		struct m_call call = {.start_ns = (uint64_t)i + 1, .dur_ns = 1};
		call.probe = rec_add_probe(w, &probe);
		rec_put_calls(w, &call, 1);
	}
	return rec_writer_close(w, false, e);
}

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
	if (argc > 3 && !strcmp(argv[1], "names"))
		return write_names(argv[2], argv + 3, argc - 3, &e) ? 1 : 0;
	for (size_t i = 0; argc == 3 && i < sizeof(samples) / sizeof(samples[0]); i++) {
		if (strcmp(argv[1], samples[i].name) != 0)
			continue;
		if (!samples[i].write(argv[2], &e))
			return 0;
		fprintf(stderr, "make_hostile: %s\n", e.msg);
		return 1;
	}
	fprintf(stderr,
		"usage: make_hostile plain|profile|gpu|timeline FILE, or names FILE NAME...\n");
	return 2;
}
