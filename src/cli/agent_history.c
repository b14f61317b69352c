/* agent_history.c - which question of the store an address is, and its incidents as others have
 * them. Knows nothing of tables. */
#include "cli/agent_history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/entity.h"
#include "cli/agent_answers.h"
#include "incident/incident_row.h"
#include "report/report_anomalies.h"
#include "report/report_html.h"
#include "serve/http_query.h"
#include "store/store_read.h"

#define MOST_NS 2000000000ULL /* that an answer takes */

static const char above[] = "/api/v1/history";

/* ---- what is asked ---- */

/* "4711/steps" and the like; the process's number is the store's. */
static bool process_topic(const char *rest, struct store_question *q)
{
	static const struct {
		const char *name;
		enum store_topic topic;
	} topics[] = {{"/steps", STORE_STEPS}, {"/series", STORE_SERIES}, {"/flame", STORE_CPU}};
	char *end;
	long long id = strtoll(rest, &end, 10);
	if (rest[0] < '0' || rest[0] > '9' || id <= 0)
		return false;
	q->process = id;
	for (size_t i = 0; i < sizeof(topics) / sizeof(*topics); i++) {
		q->topic = topics[i].topic;
		if (!strcmp(end, topics[i].name))
			return true;
	}
	return false;
}

static bool kind_topic(const char *kind, struct store_question *q)
{
	q->topic = STORE_SERIES;
	for (q->kind = 0; q->kind < ENTITY_KINDS; q->kind++)
		if (!strcmp(kind, agent_kind_name((uint8_t)q->kind)))
			return true;
	return false;
}

/* The topic of a path; false: there is none of that name. */
static bool topic_of(const char *path, struct store_question *q)
{
	static const char processes[] = "/processes/", series[] = "/series/";
	const char *rest = path + strlen(above);
	q->topic = !strcmp(rest, "/incidents") ? STORE_TOLD : STORE_JOBS;
	if (!strncmp(rest, processes, strlen(processes)))
		return process_topic(rest + strlen(processes), q);
	if (!strncmp(rest, series, strlen(series)))
		return kind_topic(rest + strlen(series), q);
	return q->topic == STORE_TOLD || !*rest;
}

static bool times_of(const char *query, struct store_question *q)
{
	uint64_t from_s = 0, to_s = (uint64_t)q->to_s, last_s = 0, after = 0;
	if (http_query_u64(query, "from", &from_s) || http_query_u64(query, "to", &to_s) ||
	    http_query_u64(query, "last", &last_s) || http_query_u64(query, "after", &after) ||
	    from_s > INT64_MAX || to_s > INT64_MAX || after > INT32_MAX)
		return false;
	if (last_s)
		from_s = to_s > last_s ? to_s - last_s : 0;
	q->from_s = (int64_t)from_s;
	q->to_s = (int64_t)to_s;
	q->after = (int64_t)after;
	return true;
}

/* ---- incidents as `report --json` has them ---- */

static double real_of(const json_t *row, const char *key)
{
	return json_number_value(json_object_get(row, key));
}

static uint64_t whole_of(const json_t *row, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(row, key));
}

static uint32_t add_text(struct incident_texts *texts, const char *text, size_t len)
{
	if (!len || texts->len == INCIDENT_TEXTS_MOST)
		return 0;
	texts->of[texts->len++] = xasprintf("%.*s", (int)len, text);
	return (uint32_t)texts->len;
}

static const char *text_of(const json_t *row, const char *key)
{
	const char *ret = json_string_value(json_object_get(row, key));
	return ret ? ret : "";
}

static void put_texts(struct m_incident *to, struct incident_texts *texts, const json_t *row)
{
	const struct {
		const char *key;
		uint32_t *number;
	} all[] = {{"cause", &to->cause},
		   {"runner_up", &to->runner_up},
		   {"what", &to->what},
		   {"against", &to->against},
		   {"culprit", &to->culprit},
		   {"culprit_kind", &to->culprit_kind},
		   {"culprit_name", &to->culprit_name},
		   {"culprit_function", &to->culprit_function},
		   {"culprit_file", &to->culprit_file},
		   {"why", &to->why},
		   {"culprit_cgroup", &to->culprit_cgroup},
		   {"victim_phase", &to->victim_phase},
		   {"victim_function", &to->victim_function},
		   {"victim_file", &to->victim_file}};
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		const char *text = text_of(row, all[i].key);
		*all[i].number = add_text(texts, text, strlen(text));
	}
}

/* A sentence in each line. */
static void put_evidence(struct m_incident *to, struct incident_texts *texts, const json_t *row)
{
	const char *line = text_of(row, "evidence");
	for (size_t i = 0; i < MODEL_INCIDENT_TEXTS && *line; i++) {
		size_t len = strcspn(line, "\n");
		to->evidence[i] = add_text(texts, line, len);
		line += len + (line[len] == '\n');
	}
}

/* Nanoseconds and whose they were. */
static void put_blame(struct m_incident *to, struct incident_texts *texts, const json_t *row)
{
	const char *line = text_of(row, "blame");
	for (size_t i = 0; i < MODEL_INCIDENT_OWNERS && *line; i++) {
		size_t len = strcspn(line, "\n"), digits = strcspn(line, " \n");
		to->owner_ns[i] = strtod(line, NULL);
		if (digits < len)
			to->owners[i] = add_text(texts, line + digits + 1, len - digits - 1);
		line += len + (line[len] == '\n');
	}
}

static json_t *stored_incident(const json_t *row)
{
	struct incident_texts texts = {.len = 0};
	struct m_incident m = {.id = whole_of(row, "id"),
			       .onset_ns = whole_of(row, "onset_ns"),
			       .end_ns = whole_of(row, "end_ns"),
			       .told_ns = whole_of(row, "told_ns"),
			       .caused_ns = whole_of(row, "caused_ns"),
			       .pid = (uint32_t)whole_of(row, "pid"),
			       .ended = whole_of(row, "ended") != 0,
			       .beside = whole_of(row, "beside") != 0,
			       .culprit_pid = (uint32_t)whole_of(row, "culprit_pid"),
			       .culprit_line = (uint32_t)whole_of(row, "culprit_line"),
			       .culprit_rank = (uint32_t)whole_of(row, "culprit_rank"),
			       .victim_line = (uint32_t)whole_of(row, "victim_line"),
			       .confidence = real_of(row, "confidence"),
			       .cost_ns = real_of(row, "cost_ns"),
			       .usual_ns = real_of(row, "usual_ns"),
			       .unexplained_ns = real_of(row, "unexplained_ns")};
	put_texts(&m, &texts, row);
	put_evidence(&m, &texts, row);
	put_blame(&m, &texts, row);
	json_t *ret = incident_json(&(struct incident_said){.row = &m, .texts = &texts});
	json_object_set(ret, "run", json_object_get(row, "run"));
	incident_texts_free(&texts);
	return ret;
}

static void put_incidents(json_t *answer)
{
	json_t *rows = json_object_get(answer, "incidents"), *list = json_array(), *row;
	size_t i;
	json_array_foreach (rows, i, row) {
		json_array_append_new(list, stored_incident(row));
	}
	json_object_set_new(answer, "incidents", list);
}

/* ---- answers ---- */

static void put_kinds(json_t *answer)
{
	json_t *row;
	size_t i;
	json_array_foreach (json_object_get(answer, "series"), i, row) {
		json_int_t kind = json_integer_value(json_object_get(row, "kind"));
		json_object_set_new(row, "kind", json_string(agent_kind_name((uint8_t)kind)));
	}
}

static void put_flame(json_t *answer, struct calltree *tree)
{
	json_t *left_out = json_array();
	bool some = tree->nodes.data[0].total[0] > 0;
	tree->title = xasprintf("CPU time of process %lld",
				(long long)whole_of(json_object_get(answer, "process"), "pid"));
	tree->unit = "ns";
	json_object_set_new(answer, "flame",
			    some ? report_html_flame(tree, "cpu", left_out) : json_null());
	json_object_set_new(answer, "left_out", left_out);
}

static void refuse(struct http_answer *ret, int status, const char *why)
{
	agent_answer_json(ret, json_pack("{s:s}", "error", why));
	ret->status = status;
}

static int status_of(int failed)
{
	return failed == -EINVAL ? 400 : failed == -ENOENT ? 404 : 503;
}

static void finish(json_t *answer, const struct store_question *q)
{
	if (q->topic == STORE_TOLD)
		put_incidents(answer);
	if (q->topic == STORE_SERIES)
		put_kinds(answer);
	if (q->topic == STORE_CPU)
		put_flame(answer, q->tree);
	json_object_set_new(answer, "kept", json_true());
}

static void answer(const char *path, struct store_question *q, struct http_answer *ret)
{
	json_t *got = NULL;
	struct calltree tree;
	struct err e;
	calltree_init(&tree);
	q->tree = &tree;
	q->until_ns = monotonic_ns() + MOST_NS;
	int rc = store_read(&got, path, q, &e);
	if (rc) {
		refuse(ret, status_of(rc), e.msg);
	} else {
		finish(got, q);
		agent_answer_json(ret, got);
	}
	calltree_free(&tree);
	q->tree = NULL;
}

void agent_get_history(void *ctx, const struct http_question *asked, struct http_answer *ret)
{
	const struct agent *a = ctx;
	struct store_question q = {.to_s = (int64_t)(realtime_ns() / 1000000000)};
	if (!topic_of(asked->path, &q))
		agent_answer_json(ret, NULL);
	else if (!times_of(asked->query, &q))
		refuse(ret, 400, "from, to and last are seconds, after is a number");
	else if (a->store_path)
		answer(a->store_path, &q, ret);
	else
		agent_answer_json(ret, json_pack("{s:b}", "kept", 0));
}
