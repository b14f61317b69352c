/* otlp_profiles_test.c - call trees as OpenTelemetry's profiles: tables whose first rows are empty
 * and whose rows are there once, stacks from the leaf, resources by process.
 *
 * links: serve session symbolize base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "otlp_profiles_service.pb-c.h"
#include "serve/otlp_profiles.h"

typedef Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest
	request_t;
typedef Opentelemetry__Proto__Profiles__V1development__ProfilesDictionary dictionary_t;
typedef Opentelemetry__Proto__Profiles__V1development__Profile profile_t;
typedef Opentelemetry__Proto__Profiles__V1development__Location location_t;
typedef Opentelemetry__Proto__Resource__V1__Resource resource_t;

static const char *const keys[] = {"host.name", "eacgm.job", "site"}, *const values[] = {
									      "mine", "told",
									      "told too"};
static const struct otlp_about about = {
	.version = "1", .host = "host", .keys = keys, .values = values, .n = 3};
static request_t *request;

static const struct chosen_labels chosen = {
	.list = {{.name = "team", .value = "vision"}, {.name = "site", .value = "lab"}}, .len = 2};

static struct live_process process(uint32_t pid)
{
	struct live_process ret = {.pid = pid, .parent = 1, .comm = "python3", .rank = 3};
	proc_labels_init(&ret.labels);
	snprintf(ret.script, sizeof(ret.script), "train\x01.py");
	snprintf(ret.labels.pod, sizeof(ret.labels.pod), "train-0");
	snprintf(ret.labels.job, sizeof(ret.labels.job), "47");
	ret.labels.chosen = &chosen;
	return ret;
}

/* main -> python -> leaf, and main alone; what differs by the process is its own leaf. */
static void make_tree(struct calltree *t, const char *leaf)
{
	calltree_init(t);
	t->unit = "ns";
	t->type = "cpu";
	t->period_ns = 10;
	t->start_realtime_ns = 5000;
	t->duration_ns = 700;
	calltree_build_id(t, "/lib/a.so", "abcd");
	uint32_t first = calltree_frame(t, CALLTREE_NATIVE, "main", "", 0, "/lib/a.so");
	uint32_t second = calltree_frame(t, CALLTREE_PYTHON, "<module>", "train.py", 12, "");
	uint32_t third = calltree_frame(t, CALLTREE_OTHER, leaf, "", 0, "");
	uint32_t node = calltree_child(t, 0, first);
	calltree_add(t, node, 20, 0);
	node = calltree_child(t, node, second);
	node = calltree_child(t, node, third);
	calltree_add(t, node, 30, 0);
	calltree_sum(t);
}

static void add(struct otlp_profiles *m, uint32_t pid, const char *leaf)
{
	const struct live_process of = process(pid);
	struct calltree t;
	make_tree(&t, leaf);
	otlp_profiles_add(m, &t, &of);
	calltree_free(&t);
}

static void end_and_read(struct otlp_profiles *m)
{
	struct buf b = {0};
	assert_true(otlp_profiles_bytes(m) > 0);
	otlp_profiles_end(m, &b);
	request =
		opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__unpack(
			NULL, b.len, b.data);
	assert_non_null(request);
	buf_free(&b);
}

static int end(void **unused)
{
	(void)unused;
	if (request)
		opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__free_unpacked(
			request, NULL);
	request = NULL;
	return 0;
}

static const profile_t *profile(size_t i)
{
	assert_true(i < request->n_resource_profiles);
	const Opentelemetry__Proto__Profiles__V1development__ResourceProfiles *r =
		request->resource_profiles[i];
	assert_int_equal(r->n_scope_profiles, 1);
	assert_string_equal(r->scope_profiles[0]->scope->name, "eacgm");
	assert_int_equal(r->scope_profiles[0]->n_profiles, 1);
	return r->scope_profiles[0]->profiles[0];
}

static const char *string(int32_t i)
{
	assert_true(i >= 0 && (size_t)i < request->dictionary->n_string_table);
	return request->dictionary->string_table[i];
}

/* "leaf<caller<..." */
static const char *stack(const profile_t *p, size_t i)
{
	static char ret[200];
	const dictionary_t *d = request->dictionary;
	const Opentelemetry__Proto__Profiles__V1development__Stack *s =
		d->stack_table[p->samples[i]->stack_index];
	ret[0] = 0;
	for (size_t k = 0; k < s->n_location_indices; k++) {
		const location_t *l = d->location_table[s->location_indices[k]];
		assert_int_equal(l->n_lines, 1);
		size_t n = strlen(ret);
		snprintf(ret + n, sizeof(ret) - n, "%s%s", k ? "<" : "",
			 string(d->function_table[l->lines[0]->function_index]->name_strindex));
	}
	return ret;
}

static const char *attribute(const resource_t *r, const char *key)
{
	static char number[32];
	const char *found = NULL;
	for (size_t i = 0; i < r->n_attributes; i++) {
		const Opentelemetry__Proto__Common__V1__AnyValue *v = r->attributes[i]->value;
		if (strcmp(r->attributes[i]->key, key) != 0)
			continue;
		assert_null(found); /* once */
		snprintf(number, sizeof(number), "%lld", (long long)v->int_value);
		found = v->value_case ==
					OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_STRING_VALUE
				? v->string_value
				: number;
	}
	return found ? found : "";
}

static void samples_and_their_stacks(void **unused)
{
	(void)unused;
	struct otlp_profiles *m = otlp_profiles_new(&about);
	add(m, 7, "");
	end_and_read(m);
	const profile_t *p = profile(0);
	assert_int_equal(p->n_samples, 2);
	assert_string_equal(stack(p, 0), "main");
	assert_string_equal(stack(p, 1), "[unknown]<<module><main");
	for (size_t i = 0; i < 2; i++)
		assert_true(p->samples[i]->n_values == 1 &&
			    p->samples[i]->values[0] == (i ? 30 : 20));
	assert_string_equal(string(p->sample_type->type_strindex), "cpu");
	assert_string_equal(string(p->sample_type->unit_strindex), "nanoseconds");
	assert_string_equal(string(p->period_type->unit_strindex), "nanoseconds");
	assert_true(p->period == 10 && p->time_unix_nano == 5000 && p->duration_nano == 700);
	assert_int_equal(p->profile_id.len, 16);
}

static void frames(void **unused)
{
	(void)unused;
	struct otlp_profiles *m = otlp_profiles_new(&about);
	add(m, 7, "leaf");
	end_and_read(m);
	const dictionary_t *d = request->dictionary;
	assert_true(d->n_mapping_table == 2 && d->n_location_table == 4 && d->n_link_table == 1);
	assert_string_equal(string(d->mapping_table[1]->filename_strindex), "/lib/a.so");
	const char *types[4] = {0}, *build = NULL;
	for (size_t i = 1; i < d->n_location_table; i++) {
		const location_t *l = d->location_table[i];
		if (!l->n_attribute_indices)
			continue;
		const Opentelemetry__Proto__Profiles__V1development__KeyValueAndUnit *a =
			d->attribute_table[l->attribute_indices[0]];
		assert_string_equal(string(a->key_strindex), "profile.frame.type");
		types[i] = a->value->string_value;
		assert_int_equal(l->mapping_index, !strcmp(types[i], "native"));
		assert_int_equal(l->lines[0]->line, strcmp(types[i], "native") ? 12 : 0);
	}
	assert_string_equal(types[1], "native");
	assert_string_equal(types[2], "cpython");
	assert_null(types[3]);
	const Opentelemetry__Proto__Profiles__V1development__KeyValueAndUnit *a =
		d->attribute_table[d->mapping_table[1]->attribute_indices[0]];
	build = a->value->string_value;
	assert_string_equal(string(a->key_strindex), "process.executable.build_id.gnu");
	assert_string_equal(build, "abcd");
}

/* The schema wants the empty row in each table, and none twice. */
static void tables_are_shared(void **unused)
{
	(void)unused;
	struct otlp_profiles *m = otlp_profiles_new(&about);
	add(m, 7, "one");
	add(m, 8, "one");
	add(m, 9, "two");
	end_and_read(m);
	const dictionary_t *d = request->dictionary;
	assert_int_equal(request->n_resource_profiles, 3);
	assert_int_equal(d->n_stack_table, 4); /* none, main, one's, two's */
	assert_int_equal(d->n_function_table, 5);
	assert_int_equal(d->n_location_table, 5);
	assert_int_equal(d->n_attribute_table, 4);
	assert_string_equal(d->string_table[0], "");
	assert_int_equal(d->stack_table[0]->n_location_indices, 0);
	assert_int_equal(d->location_table[0]->n_lines, 0);
	assert_int_equal(d->function_table[0]->name_strindex, 0);
	assert_int_equal(d->mapping_table[0]->filename_strindex, 0);
	assert_null(d->attribute_table[0]->value);
	assert_true(d->link_table[0]->trace_id.len == 16 && d->link_table[0]->span_id.len == 8);
	for (size_t i = 0; i < d->n_string_table; i++)
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(d->string_table[i], d->string_table[k]);
	assert_string_equal(stack(profile(2), 1), "two<<module><main");
	assert_true(memcmp(profile(0)->profile_id.data, profile(1)->profile_id.data, 16) != 0);
}

static void a_process_is_a_resource(void **unused)
{
	(void)unused;
	struct otlp_profiles *m = otlp_profiles_new(&about);
	add(m, 7, "leaf");
	end_and_read(m);
	const resource_t *r = request->resource_profiles[0]->resource;
	assert_string_equal(attribute(r, "process.pid"), "7");
	assert_string_equal(attribute(r, "process.executable.name"), "python3");
	assert_string_equal(attribute(r, "service.name"), "train?.py");
	assert_string_equal(attribute(r, "service.instance.id"), "host:7");
	assert_string_equal(attribute(r, "service.version"), ""); /* it is not eacgm's */
	assert_string_equal(attribute(r, "k8s.pod.name"), "train-0");
	assert_string_equal(attribute(r, "eacgm.rank"), "3");
	assert_string_equal(attribute(r, "eacgm.local_rank"), "");
	assert_string_equal(attribute(r, "host.name"), "mine");
	assert_string_equal(attribute(r, "eacgm.job"), "told");
	assert_string_equal(attribute(r, "team"), "vision");
	assert_string_equal(attribute(r, "site"), "told too"); /* and once */
	size_t sites = 0;
	for (size_t i = 0; i < r->n_attributes; i++)
		sites += !strcmp(r->attributes[i]->key, "site");
	assert_int_equal(sites, 1);
}

static void nothing_is_no_message(void **unused)
{
	(void)unused;
	struct buf b = {0};
	otlp_profiles_end(otlp_profiles_new(&about), &b);
	assert_int_equal(b.len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(samples_and_their_stacks, end),
		cmocka_unit_test_teardown(frames, end),
		cmocka_unit_test_teardown(tables_are_shared, end),
		cmocka_unit_test_teardown(a_process_is_a_resource, end),
		cmocka_unit_test(nothing_is_no_message),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
