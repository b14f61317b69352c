/* incident_row_test.c - an incident with its cause as a row: its texts, what has no room, what is
 * not known; the same words from a file and from memory.
 *
 * links: incident detect analyze recording base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <linux/types.h>

#include "incident/incident_row.h"

static struct rec_tables tables;
static struct diagnosed in;

static int begin(void **state)
{
	(void)state;
	tables = (struct rec_tables){0};
	strtab_add(&tables.strings, "", 0);
	in = (struct diagnosed){.id = 7,
				.onset_ns = 1000,
				.end_ns = 9000,
				.told_ns = 2000,
				.pid = 42,
				.cost_ns = 2.5e9,
				.blamed = true,
				.cause = {.cause = CAUSE_CPU_CONTENTION,
					  .runner_up = CAUSE_DISK,
					  .confidence = 0.75,
					  .culprit = {.kind = CULPRIT_PROCESS,
						      .pid = 99,
						      .frame = BLAME_NO_FRAME,
						      .metric = UINT32_MAX}}};
	in.cause.culprit.name = strtab_add_z(&tables.strings, "stress");
	in.cause.evidence[in.cause.evidence_len++] = (char *)(uintptr_t) "it had no CPU";
	in.evidence.blame.usual_ns = 1e9;
	in.evidence.blame.unexplained_ns = 1e7;
	return 0;
}

static int end(void **state)
{
	(void)state;
	vec_free(&in.evidence.blame.parts);
	strtab_free(&tables.strings);
	return 0;
}

static void owned(double ns)
{
	*vec_push(&in.evidence.blame.parts) =
		(struct blame_part){.owner = {.kind = BLAME_RIVAL,
					      .pid = 99,
					      .name = in.cause.culprit.name,
					      .thread = UINT32_MAX,
					      .frame = BLAME_NO_FRAME},
				    .ns = ns};
}

static char *line_of(const struct incident_said *s)
{
	struct buf b = {0};
	incident_line(&b, s);
	buf_byte(&b, 0);
	return (char *)b.data;
}

static void all_of_it_is_there(void **state)
{
	(void)state;
	struct m_incident row;
	struct incident_texts texts;
	for (int i = 0; i < 9; i++)
		owned(1e9);
	in.cause.culprit.cgroup = strtab_add_z(&tables.strings, "/batch");
	in.place = (struct victim_place){"backward", "loss", "/job/train.py", 12};
	incident_to_row(&row, &texts, &in, &tables, 2600, true);
	const struct incident_said said = {.row = &row, .texts = &texts};
	assert_int_equal(row.id, 7);
	assert_int_equal(row.caused_ns, 2600);
	assert_int_equal(row.culprit_pid, 99);
	assert_string_equal(incident_text(&said, row.cause), "cpu_contention");
	assert_string_equal(incident_text(&said, row.runner_up), "disk");
	assert_string_equal(incident_text(&said, row.what), "CPU contention by stress (99)");
	assert_string_equal(incident_text(&said, row.culprit), "stress");
	assert_string_equal(incident_text(&said, row.culprit_kind), "process");
	assert_true(!row.culprit_name && !row.culprit_function && !row.culprit_line);
	assert_string_equal(incident_text(&said, row.culprit_cgroup), "/batch");
	assert_string_equal(incident_text(&said, row.victim_phase), "backward");
	assert_string_equal(incident_text(&said, row.victim_function), "loss");
	assert_string_equal(incident_text(&said, row.victim_file), "/job/train.py");
	assert_int_equal(row.victim_line, 12);
	assert_string_equal(incident_text(&said, row.evidence[0]), "it had no CPU");
	assert_int_equal(row.evidence[1], 0);
	assert_string_equal(incident_text(&said, row.owners[MODEL_INCIDENT_OWNERS - 1]),
			    "could run, but stress (99) had the CPU");
	assert_string_equal(incident_text(&said, 0), "");
	char *line = line_of(&said);
	assert_string_equal(line, "CPU contention by stress (99), 2.50 s lost");
	free(line);
	assert_false(row.beside);
	incident_texts_free(&texts);
}

static void what_came_to_another_says_so(void **state)
{
	(void)state;
	struct m_incident row;
	struct incident_texts texts;
	in.beside = true;
	incident_to_row(&row, &texts, &in, &tables, 2600, false);
	assert_true(row.beside);
	char *line = line_of(&(struct incident_said){.row = &row, .texts = &texts});
	assert_string_equal(line, "CPU contention by stress (99), 2.50 s of what was lost so far");
	free(line);
	incident_texts_free(&texts);
}

/* What to do is against what made the rank late. */
static void a_straggler_has_a_rank_and_why(void **state)
{
	(void)state;
	struct m_incident row;
	struct incident_texts texts;
	const struct incident_said said = {.row = &row, .texts = &texts};
	in.cause.cause = CAUSE_STRAGGLER;
	in.cause.culprit.kind = CULPRIT_RANK;
	in.cause.culprit.rank = 0;
	in.cause.why_culprit = (struct culprit){.frame = BLAME_NO_FRAME, .metric = UINT32_MAX};
	in.cause.why = CAUSE_UNKNOWN;
	incident_to_row(&row, &texts, &in, &tables, 0, true);
	assert_int_equal(row.culprit_rank, 1);
	assert_int_equal(row.why, 0);
	assert_string_equal(incident_advice(&said), cause_advice(CAUSE_STRAGGLER));
	incident_texts_free(&texts);
	in.cause.culprit.rank = -1; /* it says of none which it is */
	in.cause.why = CAUSE_CPU_CONTENTION;
	incident_to_row(&row, &texts, &in, &tables, 0, true);
	assert_int_equal(row.culprit_rank, 0);
	assert_string_equal(incident_text(&said, row.why), "cpu_contention");
	assert_int_equal(incident_why(&said), CAUSE_CPU_CONTENTION);
	assert_string_equal(incident_advice(&said), cause_advice(CAUSE_CPU_CONTENTION));
	incident_texts_free(&texts);
}

/* A cgroup, a device, a line. */
static void culprits_that_are_no_process(void **state)
{
	(void)state;
	struct m_incident row;
	struct incident_texts texts;
	const struct incident_said said = {.row = &row, .texts = &texts};
	struct culprit *c = &in.cause.culprit;
	vec_push(&tables.metrics)->label = strtab_add_z(&tables.strings, "/job.slice");
	*vec_push(&tables.frames) = (struct m_frame){
		.name = strtab_add_z(&tables.strings, "load"),
		.file = strtab_add_z(&tables.strings, "train.py"),
		.line = 20,
	};
	*c = (struct culprit){.kind = CULPRIT_CGROUP, .frame = BLAME_NO_FRAME};
	incident_to_row(&row, &texts, &in, &tables, 0, true);
	assert_string_equal(incident_text(&said, row.culprit_kind), "cgroup");
	assert_string_equal(incident_text(&said, row.culprit_name), "/job.slice");
	assert_true(!row.culprit && !row.culprit_pid);
	incident_texts_free(&texts);
	*c = (struct culprit){.kind = CULPRIT_INTERRUPT,
			      .frame = BLAME_NO_FRAME,
			      .metric = UINT32_MAX,
			      .device = strtab_add_z(&tables.strings, "NET_RX")};
	incident_to_row(&row, &texts, &in, &tables, 0, true);
	assert_string_equal(incident_text(&said, row.culprit_kind), "interrupt");
	assert_string_equal(incident_text(&said, row.culprit_name), "NET_RX");
	incident_texts_free(&texts);
	*c = (struct culprit){.kind = CULPRIT_LINE, .metric = UINT32_MAX};
	incident_to_row(&row, &texts, &in, &tables, 0, true);
	assert_string_equal(incident_text(&said, row.culprit_function), "load");
	assert_string_equal(incident_text(&said, row.culprit_file), "train.py");
	assert_int_equal(row.culprit_line, 20);
	assert_int_equal(row.culprit_name, 0);
	incident_texts_free(&texts);
	vec_free(&tables.metrics);
	vec_free(&tables.frames);
}

static void what_is_small_or_not_known_is_left_out(void **state)
{
	(void)state;
	struct m_incident row;
	struct incident_texts texts;
	owned(1e7); /* of 2.5 s */
	in.cause.runner_up = CAUSE_UNKNOWN;
	incident_to_row(&row, &texts, &in, &tables, 2600, false);
	assert_int_equal(row.owners[0], 0);
	assert_int_equal(row.runner_up, 0);
	assert_int_equal(row.against, 0);
	char *line = line_of(&(struct incident_said){.row = &row, .texts = &texts});
	assert_string_equal(line, "CPU contention by stress (99), 2.50 s lost so far");
	free(line);
	incident_texts_free(&texts);
}

static void without_blame_the_cost_is_unexplained(void **state)
{
	(void)state;
	struct m_incident row;
	struct incident_texts texts;
	in.blamed = false;
	in.cause = (struct cause_found){.culprit = {.frame = BLAME_NO_FRAME, .metric = UINT32_MAX}};
	in.cost_ns = NAN;
	incident_to_row(&row, &texts, &in, &tables, 0, true);
	const struct incident_said said = {.row = &row, .texts = &texts};
	assert_string_equal(incident_text(&said, row.cause), "unknown");
	char *line = line_of(&said);
	assert_string_equal(line, cause_title(CAUSE_UNKNOWN));
	free(line);
	incident_texts_free(&texts);
}

static void a_file_says_the_same(void **state)
{
	(void)state;
	struct m_incident row = {.what = strtab_add_z(&tables.strings, "slow data loading"),
				 .cost_ns = 1e9,
				 .ended = 1};
	const struct incident_said said = {.row = &row, .strings = &tables.strings};
	char *line = line_of(&said);
	assert_string_equal(line, "slow data loading, 1.00 s lost");
	free(line);
	assert_string_equal(incident_advice(&said), cause_advice(CAUSE_UNKNOWN));
	row.cause = strtab_add_z(&tables.strings, "data_loader");
	assert_string_equal(incident_advice(&said), cause_advice(CAUSE_DATA_LOADER));
	row.cause = strtab_add_z(&tables.strings, "no such");
	assert_string_equal(incident_advice(&said), cause_advice(CAUSE_UNKNOWN));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		T(all_of_it_is_there),
		T(what_came_to_another_says_so),
		T(a_straggler_has_a_rank_and_why),
		T(culprits_that_are_no_process),
		T(what_is_small_or_not_known_is_left_out),
		T(without_blame_the_cost_is_unexplained),
		T(a_file_says_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
