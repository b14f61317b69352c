/* learn_recordings_test.c - what is learned of several recordings: numbers of rows are each one's.
 *
 * links: detect analyze recording base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/types.h>

#include "base/random.h"
#include "detect/learn.h"
#include "wire/event.h"
#include "recording/recording.h"

#define SECOND 1000000000ULL
#define MS     1000000.0

static const struct {
	const char *name;
	double ns;
} functions[2] = {{"aten::short", 1 * MS}, {"aten::long", 20 * MS}};

static void put_probes(struct rec_writer *w, bool swapped)
{
	for (size_t i = 0; i < 2; i++)
		rec_add_probe(
			w, &(struct m_probe){.layer = rec_string_z(w, "torch"),
					     .name = rec_string_z(w, functions[i ^ swapped].name),
					     .kind = SITE_SPAN,
					     .name_arg = -1});
	rec_add_thread(w, &(struct m_thread){.pid = 7, .tid = 7});
	rec_put_process(w, &(struct m_process){.pid = 7, .start_ns = 1});
}

/* A minute in which both take turns; swapped: the first probe is the second function. */
static struct rec_reader *recording(uint64_t seed, bool swapped)
{
	char path[] = "/tmp/learn_recordings_test.XXXXXX";
	struct rec_writer *w = NULL;
	struct rec_reader *r = NULL;
	struct err e = {0};
	close(mkstemp(path));
	assert_int_equal(rec_writer_open(&w, path, NULL, &e), 0);
	put_probes(w, swapped);
	uint64_t at = SECOND;
	for (size_t i = 0; at < 61 * SECOND; i++) {
		double ns = functions[i % 2].ns * exp(0.05 * random_normal(&seed));
		struct m_call c = {.start_ns = at,
				   .dur_ns = (uint64_t)ns,
				   .probe = (uint32_t)(i % 2) ^ swapped};
		rec_put_calls(w, &c, 1);
		at += c.dur_ns + 100000;
	}
	assert_int_equal(rec_writer_close(w, false, &e), 0);
	assert_int_equal(rec_open(&r, path, &e), 0);
	unlink(path);
	return r;
}

static double usual_ns(const struct model *m, const char *text)
{
	for (size_t i = 0; i < m->keys.len; i++)
		if (!strcmp(m->keys.data[i].text, text))
			return exp(m->keys.data[i].duration.log_median);
	fail_msg("'%s' was not learned", text);
	return 0;
}

static void functions_keep_their_names(void **state)
{
	(void)state;
	struct err e = {0};
	struct model m;
	struct rec_reader *readers[] = {recording(1, false), recording(2, true)};
	const struct row_source *sources[] = {rec_source(readers[0]), rec_source(readers[1])};
	if (learn_model(&m, sources, 2, &(struct learn_options){.warmup_s = -1}, &e))
		fail_msg("%s", e.msg);
	for (size_t i = 0; i < 2; i++) {
		double ns = usual_ns(&m, functions[i].name);
		if (fabs(log(ns / functions[i].ns)) > 0.1)
			fail_msg("%s usually takes %g ns", functions[i].name, ns);
		rec_close(readers[i]);
	}
	model_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(functions_keep_their_names)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
