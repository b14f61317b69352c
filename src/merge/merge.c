/* merge.c - the merge from its first step to its last. */
#include "merge/merge.h"

#include <errno.h>
#include <sys/stat.h>

#include "merge/merge_impl.h"

bool merge_go_on(struct merge *m)
{
	return !m->options->go_on || m->options->go_on(m->options->ctx, m->blocks_done, m->blocks);
}

static const char *how_aligned(const struct merge *m, size_t i)
{
	const struct merge_input *in = &m->inputs.data[i];
	const struct clock_state *clock = &m->clocks.data[in->clock];
	if (!i)
		return "reference";
	if (!in->clock)
		return "same boot";
	if (clock->aligned)
		return "collectives";
	return in->realtime_known && m->inputs.data[0].realtime_known ? "realtime" : "unknown";
}

/* One sentence on what could not be read, NULL when all could. */
static char *damage_of(const struct merge_input *in)
{
	if (in->t->damaged_at)
		return xasprintf("%s", in->t->damage);
	if (in->blocks_unread)
		return xasprintf("%llu blocks could not be read: %s",
				 (unsigned long long)in->blocks_unread, in->unread.msg);
	return in->t->complete ? NULL : xstrdup("cut short: the file has no end block");
}

static uint64_t begin_of(const struct merge_input *in)
{
	const char *text = rec_meta(in->t, "start_monotonic_ns");
	uint64_t start = text ? strtoull(text, NULL, 10) : 0;
	return start ? start : in->t->last_ns;
}

static void describe(const struct merge *m, struct merge_result *ret)
{
	for (size_t i = 0; i < m->inputs.len; i++) {
		const struct merge_input *in = &m->inputs.data[i];
		const struct clock_state *clock = &m->clocks.data[in->clock];
		*vec_push(&ret->sources) = (struct merge_source){
			.path = xstrdup(in->path),
			.host = xstrdup(in->host),
			.damage = damage_of(in),
			.clock = in->clock,
			.shift_ns = clock_map_shift(&clock->map, begin_of(in)),
			.drift_ratio = clock_map_drift(&clock->map),
			.error_ns = clock->map.error_ns,
			.how = how_aligned(m, i),
			.collectives = clock->aligned ? clock->used : 0,
			.pid_shift = in->pid_shift,
			.calls = in->t->calls,
		};
	}
}

static void put_sources(struct merge *m)
{
	struct merge_result r = {0};
	describe(m, &r);
	for (size_t i = 0; i < r.sources.len; i++) {
		const struct merge_source *s = &r.sources.data[i];
		rec_put_source(m->w, &(struct m_source){.path = rec_string_z(m->w, s->path),
							.host = rec_string_z(m->w, s->host),
							.shift_ns = s->shift_ns,
							.error_ns = s->error_ns,
							.pid_shift = s->pid_shift,
							.how = rec_string_z(m->w, s->how),
							.drift_ratio = s->drift_ratio});
	}
	merge_result_free(&r);
}

static void put_damage(struct merge *m, const struct merge_input *in)
{
	char *damage = damage_of(in);
	if (damage)
		rec_put_note(m->w, &(struct m_note){.subject = rec_string_z(m->w, in->path),
						    .reason = rec_string_z(m->w, damage)});
	free(damage);
}

static int put_all(struct merge *m, struct err *e)
{
	int rc = 0;
	merge_put_metas(m);
	put_sources(m);
	for (uint32_t i = 0; i < m->inputs.len && !rc; i++) {
		merge_put_tables(m, i);
		rc = merge_put_rows(m, i, e);
		put_damage(m, &m->inputs.data[i]);
	}
	return rc;
}

/* The output has its name when it is whole. */
static int write_output(struct merge *m, const char *output, struct merge_result *ret,
			struct err *e)
{
	struct rec_writer_stats stats;
	int rc = rec_writer_open(
		&m->w, output,
		&(struct rec_writer_options){.owner = m->options->owner, .named_when_told = true},
		e);
	if (rc)
		return rc;
	rc = put_all(m, e);
	if (!rc)
		rc = rec_writer_end(m->w, false, e);
	if (!rc)
		rc = rec_writer_name(m->w, e);
	rec_writer_stats(m->w, &stats);
	ret->bytes = stats.bytes;
	int closed = rec_writer_close(m->w, false, rc ? NULL : e);
	return rc ? rc : closed;
}

static int check_output(const char *output, struct err *e)
{
	struct stat st;
	if (!stat(output, &st) && !S_ISREG(st.st_mode))
		return err_set(e, EINVAL, "cannot merge into '%s': it is not a regular file",
			       output);
	return 0;
}

int merge_recordings(struct merge_result *ret, const char *const *paths, size_t n,
		     const char *output, const struct merge_options *options, struct err *e)
{
	static const struct merge_options none;
	struct merge m = {.options = options ? options : &none};
	struct merge_result result = {0};
	for (unsigned kind = 0; kind < ROW_KINDS; kind++)
		if (row_kind_info(kind))
			m.once[kind].row_bytes = row_kind_info(kind)->row_bytes;
	int rc = n ? check_output(output, e) : err_set(e, EINVAL, "there is nothing to merge");
	if (!rc)
		rc = merge_inputs_open(&m, paths, n, output, e);
	if (!rc)
		rc = merge_choose_pids(&m, e);
	if (!rc)
		merge_align(&m);
	if (!rc && !merge_go_on(&m))
		rc = err_set(e, ECANCELED, "interrupted: nothing was written");
	if (!rc)
		rc = write_output(&m, output, &result, e);
	if (!rc) {
		describe(&m, &result);
		*ret = result;
	}
	for (unsigned kind = 0; kind < ROW_KINDS; kind++)
		row_set_free(&m.once[kind]);
	vec_free(&m.losses);
	map64_free(&m.loss_of);
	merge_inputs_close(&m);
	return rc;
}

void merge_result_free(struct merge_result *r)
{
	for (size_t i = 0; i < r->sources.len; i++) {
		free(r->sources.data[i].path);
		free(r->sources.data[i].host);
		free(r->sources.data[i].damage);
	}
	vec_free(&r->sources);
}
