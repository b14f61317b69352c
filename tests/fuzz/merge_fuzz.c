/* merge_fuzz.c - merges of hostile recordings, and ranks side by side in what comes of it.
 *
 * What the input looks like is in recording_input.h. It is merged with a copy of itself: of one
 * clock or, where nothing tells so, of two that are aligned. The output is a whole recording.
 *
 * links: merge analyze recording base */
#include "analyze/ranks.h"
#include "merge/merge.h"
#include "recording_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_ranks(const struct rec_reader *r)
{
	struct timeline timeline;
	struct collectives collectives;
	struct ranks ranks;
	timeline_make(&timeline, rec_source(r), &(struct timeline_options){0});
	collectives_make(&collectives, &timeline, 0);
	ranks_make(&ranks, rec_source(r), &collectives);
	for (size_t i = 0; i < ranks.matching.matches.len; i++) {
		const struct rank_match *m = &ranks.matching.matches.data[i];
		check(m->calls > 0 && m->first + m->calls <= ranks.matching.matched.len);
		check(m->group < ranks.matching.groups.len);
	}
	for (size_t i = 0; i < ranks.hangs.len; i++)
		for (size_t k = 0; k < ranks.hangs.data[i].ranks.len; k++)
			check(ranks.hangs.data[i].ranks.data[k].stack < ranks.tables->stacks.len);
	ranks_free(&ranks);
	collectives_free(&collectives);
	timeline_free(&timeline);
}

static void check_output(const char *path, const struct merge_result *m)
{
	struct rec_reader *r;
	check(!rec_open(&r, path, NULL));
	check(rec_tables(r)->complete && !rec_tables(r)->damaged_at);
	check(rec_tables(r)->sources.len == m->sources.len);
	check_ranks(r);
	rec_close(r);
}

static void check_merge(const char *path)
{
	struct merge_result m = {0};
	struct err e = {0};
	struct buf copy = {0};
	char other[64], folder[] = "/tmp/eacgm-merge-fuzz-XXXXXX", output[64];
	FILE *f = fopen(path, "re");
	int fd = memfd_create("merge_fuzz", MFD_CLOEXEC);
	check(f && fd >= 0 && mkdtemp(folder));
	for (int c; (c = fgetc(f)) != EOF;)
		buf_byte(&copy, (uint8_t)c);
	check(!copy.len || write(fd, copy.data, copy.len) == (ssize_t)copy.len);
	snprintf(other, sizeof(other), "/proc/self/fd/%d", fd);
	snprintf(output, sizeof(output), "%s/out", folder);
	const char *const paths[] = {path, other};
	if (merge_recordings(&m, paths, 2, output, NULL, &e)) {
		check(e.msg[0] != 0);
	} else {
		check_output(output, &m);
		merge_result_free(&m);
		unlink(output);
	}
	check(!rmdir(folder));
	buf_free(&copy);
	fclose(f);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	with_recording(data, size, check_merge);
	return 0;
}
