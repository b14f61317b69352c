/* agent_incidents_test.c - the list of an agent's incidents, and what is counted of them.
 *
 * links: cli */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/agent_incidents.h"

static struct agent_incidents all;

static int begin(void **unused)
{
	(void)unused;
	all = (struct agent_incidents){0};
	agent_incidents_open(&all);
	return 0;
}

static int end(void **unused)
{
	(void)unused;
	agent_incidents_close(&all);
	return 0;
}

static void take(struct m_incident row, const char *cause)
{
	char text[32];
	struct incident_texts texts = {.of = {text}, .len = 1};
	strncpy(text, cause, sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	row.cause = 1;
	row.confidence = 0.9;
	agent_incidents_take(&all, &(struct incident_said){.row = &row, .texts = &texts});
}

static void counts(const char *cause, uint64_t n, double cost_s)
{
	for (size_t i = 0; i < all.causes.len; i++)
		if (!strcmp(all.causes.rows[i].cause, cause)) {
			assert_int_equal(all.causes.rows[i].n, n);
			assert_true(fabs(all.causes.rows[i].cost_s - cost_s) < 1e-9);
			return;
		}
	assert_int_equal(n, 0);
}

static void an_incident_counts_when_it_has_ended(void **unused)
{
	(void)unused;
	take((struct m_incident){.id = 1, .pid = 7, .told_ns = 5, .cost_ns = 1e9}, "disk");
	counts("disk", 0, 0);
	assert_int_equal(json_array_size(all.list), 1);
	take((struct m_incident){.id = 1, .pid = 7, .told_ns = 5, .ended = 1, .cost_ns = 2e9},
	     "disk");
	counts("disk", 1, 2);
	assert_int_equal(json_array_size(all.list), 1);
	take((struct m_incident){.id = 1, .pid = 7, .told_ns = 6, .ended = 1, .cost_ns = NAN}, "");
	counts("unknown", 1, 0);
	assert_int_equal(json_array_size(all.list), 2);
}

static void one_that_goes_on_counts_once(void **unused)
{
	(void)unused;
	struct m_incident row = {.id = 1, .pid = 7, .told_ns = 5, .ended = 1, .cost_ns = 2e9};
	take(row, "disk");
	row.ended = 0;
	take(row, "disk");
	row.ended = 1;
	row.cost_ns = 5e9;
	take(row, "disk");
	counts("disk", 1, 5);
	row.cost_ns = 1e9; /* what was counted is not taken back */
	take(row, "disk");
	counts("disk", 1, 5);
	row.cost_ns = 6e9; /* it is known better: what came since is the other's */
	take(row, "cpu_contention");
	counts("disk", 1, 5);
	counts("cpu_contention", 1, 1);
}

static void what_came_beside_costs_nothing_more(void **unused)
{
	(void)unused;
	struct m_incident row = {.id = 1, .pid = 7, .told_ns = 5, .ended = 1, .cost_ns = 9e9};
	take(row, "cpu_contention");
	row.told_ns = 6;
	row.beside = 1;
	row.cost_ns = 3e9;
	take(row, "python_gc");
	counts("cpu_contention", 1, 9);
	counts("python_gc", 1, 0);
	assert_true(json_is_true(json_object_get(json_array_get(all.list, 1), "beside")));
}

static void the_latest_stay(void **unused)
{
	(void)unused;
	for (uint64_t i = 0; i < 3 * AGENT_INCIDENTS; i++)
		take(
			(struct m_incident){
				.id = i, .pid = 7, .told_ns = i, .ended = 1, .cost_ns = 1e9},
			"disk");
	assert_int_equal(json_array_size(all.list), AGENT_INCIDENTS);
	counts("disk", 3 * AGENT_INCIDENTS, 3 * AGENT_INCIDENTS);
}

#define CONTAINER "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void is_text(json_t *of, const char *key, const char *text)
{
	const char *is = json_string_value(json_object_get(of, key));
	if (text)
		assert_string_equal(is ? is : "(null)", text);
	else
		assert_true(json_is_null(json_object_get(of, key)));
}

/* By the path of the culprit's cgroup, whichever field of the row has it. */
static void whose_a_cgroup_is_and_where_the_job_lost(void **unused)
{
	char group[] = "/kubepods/burstable/pod0f1e2d3c-0000-1111-2222-333344445555/" CONTAINER;
	char kind[] = "cgroup", phase[] = "backward", function[] = "loss", file[] = "train.py";
	struct incident_texts texts = {.of = {group, kind, phase, function, file}, .len = 5};
	struct m_incident row = {.id = 1, .pid = 7, .culprit_pid = 9, .culprit_cgroup = 1};
	const struct incident_said said = {.row = &row, .texts = &texts};
	(void)unused;
	json_t *in = agent_incidents_take(&all, &said), *of = json_object_get(in, "culprit");
	is_text(of, "kind", "process");
	is_text(of, "cgroup", group);
	is_text(of, "container", CONTAINER);
	is_text(of, "pod_uid", "0f1e2d3c-0000-1111-2222-333344445555");
	is_text(json_object_get(in, "victim"), "function", NULL);
	row = (struct m_incident){.id = 2,
				  .pid = 7,
				  .culprit_kind = 2,
				  .culprit_name = 1,
				  .victim_phase = 3,
				  .victim_function = 4,
				  .victim_file = 5,
				  .victim_line = 12};
	in = agent_incidents_take(&all, &said);
	of = json_object_get(in, "culprit");
	is_text(of, "cgroup", group);
	is_text(of, "container", CONTAINER);
	is_text(of, "device", NULL);
	of = json_object_get(in, "victim");
	is_text(of, "phase", "backward");
	is_text(of, "function", "loss");
	is_text(of, "file", "train.py");
	assert_int_equal(json_integer_value(json_object_get(of, "line")), 12);
	row = (struct m_incident){.id = 3, .pid = 7};
	of = json_object_get(agent_incidents_take(&all, &said), "culprit");
	is_text(of, "cgroup", NULL);
	is_text(of, "container", NULL);
	is_text(of, "pod_uid", NULL);
}

#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(whose_a_cgroup_is_and_where_the_job_lost),
		T(an_incident_counts_when_it_has_ended),
		T(one_that_goes_on_counts_once),
		T(what_came_beside_costs_nothing_more),
		T(the_latest_stay),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
