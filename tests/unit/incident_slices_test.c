/* incident_slices_test.c - incidents and their paths of blame as slices of a timeline.
 * links: export incident detect analyze recording base golden */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/types.h>

#include <cmocka.h>

#include "export/incident_slices.h"
#include "golden/gpu_sample.h"
#include "incident/diagnosis.h"
#include "recording/recording.h"
#include "made_file.h"

#define MS 1000000ULL
enum { JOB = 7, OTHER_JOB = 8, HOG = 40 };

static struct rec_writer *w;
static struct rec_reader *reader;
static struct timeline timeline;
static uint32_t hog;

static void kernel(const char *name, uint64_t from_ms, uint64_t to_ms)
{
	static uint32_t correlation;
	correlation++;
	rec_put_gpu_span(w, &(struct m_gpu_span){.start_ns = from_ms * MS,
						 .end_ns = to_ms * MS,
						 .pid = JOB,
						 .stream = 7,
						 .correlation = correlation,
						 .name = (uint32_t)rec_string_z(w, name)});
}

/* Thread 0 of the job, 1 of another. */
static void open_recording(void)
{
	struct err e = {0};
	if (rec_writer_open(&w, path, NULL, &e))
		fail_msg("%s", e.msg);
	gpu_sample_probes(w);
	rec_add_thread(w, &(struct m_thread){JOB, JOB, 0});
	rec_add_thread(w, &(struct m_thread){OTHER_JOB, OTHER_JOB, 0});
	hog = (uint32_t)rec_string_z(w, "hog");
	kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 90, 160);
	kernel("add", 95, 98);
	kernel("mul", 98, 118);
	kernel("add", 118, 121);
	if (rec_writer_close(w, false, &e) || rec_open(&reader, path, &e))
		fail_msg("%s", e.msg);
	timeline_make(&timeline, rec_source(reader), &(struct timeline_options){0});
}

static void close_recording(void)
{
	timeline_free(&timeline);
	rec_close(reader);
}

static void add_piece(struct diagnosed *in, uint64_t from_ms, uint64_t to_ms,
		      struct blame_owner owner)
{
	owner.frame = BLAME_NO_FRAME;
	*vec_push(&in->path.pieces) = (struct blame_piece){from_ms * MS, to_ms * MS, owner};
}

static void is_slice(const struct incident_slices *s, size_t i, uint32_t pid, uint64_t from_ms,
		     const char *owner, const char *work)
{
	const struct path_slice *p = &s->path.data[i];
	assert_true(i < s->path.len);
	assert_int_equal(p->pid, pid);
	assert_int_equal(p->start_ns, from_ms * MS);
	assert_string_equal(strtab_get(&s->texts, p->owner, NULL), owner);
	assert_string_equal(strtab_get(&s->texts, p->kernel, NULL), work);
}

/* By process and time, each with its owner and what the GPU did. */
static void pieces_have_their_words(void **state)
{
	(void)state;
	struct diagnosis d = {0};
	struct incident_slices s = {0};
	open_recording();
	struct diagnosed *in = vec_push(&d.incidents);
	*in = (struct diagnosed){.pid = OTHER_JOB};
	add_piece(in, 50, 60, (struct blame_owner){.kind = BLAME_SLEEP, .thread = 1});
	in = vec_push(&d.incidents);
	*in = (struct diagnosed){.pid = JOB};
	add_piece(in, 200, 210, (struct blame_owner){.kind = BLAME_GPU_WORKS});
	add_piece(in, 97, 120, (struct blame_owner){.kind = BLAME_GPU_WORKS});
	add_piece(in, 121, 130, (struct blame_owner){.kind = BLAME_RANKS});
	add_piece(in, 80, 97,
		  (struct blame_owner){
			  .kind = BLAME_RIVAL, .thread = UINT32_MAX, .pid = HOG, .name = hog});
	incident_slices_make(&s, &d, rec_tables(reader), &timeline, NULL);
	assert_int_equal(s.path.len, 5);
	is_slice(&s, 0, JOB, 80, "could run, but hog (40) had the CPU", "");
	is_slice(&s, 1, JOB, 97, "waited for the GPU, which worked", "mul");
	is_slice(&s, 2, JOB, 121, "waited for the GPU, which waited for other ranks",
		 "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
	is_slice(&s, 3, JOB, 200, "waited for the GPU, which worked", ""); /* not recorded */
	is_slice(&s, 4, OTHER_JOB, 50, "slept", "");
	assert_int_equal(s.path.data[0].incident, 2);
	assert_int_equal(s.path.data[4].incident, 1);
	assert_int_equal(s.left_out, 0);
	incident_slices_free(&s);
	diagnosis_free(&d);
	close_recording();
}

static const struct anomaly_slice_arg *arg(const struct anomaly_slice *s, const char *name)
{
	for (size_t i = 0; i < s->args_len; i++)
		if (!strcmp(s->args[i].name, name))
			return &s->args[i];
	return NULL;
}

/* What is not known is not made up, and what is left out is said. */
static void incidents_say_what_they_lack(void **state)
{
	(void)state;
	struct diagnosis d = {0};
	struct incident_slices s = {0};
	open_recording();
	for (uint32_t i = 0; i < 2; i++)
		*vec_push(&d.incidents) =
			(struct diagnosed){.onset_ns = i * MS,
					   .end_ns = (i + 1) * MS,
					   .pid = JOB + i,
					   .cost_ns = 500,
					   .path = {.left_out = 2 * i, .left_out_ns = 300ULL * i}};
	incident_slices_make(&s, &d, rec_tables(reader), &timeline, NULL);
	assert_int_equal(s.incidents.rows.len, 2);
	const struct anomaly_slice *one = &s.incidents.rows.data[0], *two = one + 1;
	assert_string_equal(one->name,
			    "Why is not known: too little of it, or of usual time, was recorded");
	assert_null(arg(one, "cause"));
	assert_null(arg(one, "path_left_out_ns"));
	assert_true(arg(one, "cost_ns")->value == 500);
	assert_true(arg(two, "path_left_out_ns")->value == 300);
	assert_true(arg(two, "pid")->value == JOB + 1 && arg(two, "incident")->value == 2);
	assert_int_equal(two->start_ns, MS);
	assert_int_equal(two->end_ns, 2 * MS);
	assert_int_equal(s.left_out, 2);
	assert_int_equal(s.left_out_ns, 300);
	incident_slices_free(&s);
	diagnosis_free(&d);
	close_recording();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_have_their_words),
		cmocka_unit_test(incidents_say_what_they_lack),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}
