/* session_output.c - where a session's rows go: a file, segments, or nowhere. In any case the
 * pipeline has a writer, which numbers rows and strings; where that keeps none, segments hear of
 * the rows as others do. */
#include "session/session_impl.h"

#define STRINGS_KEPT   (512u << 20) /* bytes, of a recording */
#define STRINGS_UNKEPT (64u << 20)  /* likewise, where nothing is kept */

static int open_writer(struct session *s, struct rec_writer **ret, struct err *e)
{
	const struct session_options *o = s->opts;
	struct rec_writer_options wo = {.max_bytes = o->max_bytes,
					.max_string_bytes =
						o->output ? STRINGS_KEPT : STRINGS_UNKEPT,
					.owner = o->owner,
					.named_when_told = true};
	return rec_writer_open(ret, o->segments ? NULL : o->output, &wo, e);
}

int session_output_open(struct session *s, struct err *e)
{
	const struct session_options *o = s->opts;
	const struct parser_service readers = tracer_others(s->tracer);
	struct output *out = &s->output;
	int rc = open_writer(s, &out->writer, e);
	if (!rc && o->output && o->segments)
		rc = segments_open(&out->segments, o->output, &o->owner, o->segments, e);
	if (rc) {
		if (out->writer)
			rec_writer_close(out->writer, false, NULL);
		return rc;
	}
	s->pipeline = pipeline_new(out->writer, "/proc", &readers);
	if (!o->output)
		pipeline_forget_ended(s->pipeline);
	if (o->jobs_alone)
		pipeline_tell_jobs_alone(s->pipeline);
	if (o->live_texts)
		pipeline_keep_texts(s->pipeline);
	if (out->segments) {
		struct event_listener listener = segments_listener(out->segments);
		pipeline_listen(s->pipeline, &listener);
	}
	return 0;
}

int session_output_flush(struct session *s, struct err *e)
{
	int rc = pipeline_flush(s->pipeline, e);
	if (!rc && s->output.segments)
		rc = segments_flush(s->output.segments, e);
	if (rc > 0)
		metas_begin_segment(s);
	return rc < 0 ? rc : 0;
}

int session_output_name(struct session *s, struct err *e)
{
	return s->output.segments ? segments_name(s->output.segments, e)
				  : rec_writer_name(s->output.writer, e);
}

void session_output_sync(struct session *s)
{
	if (s->output.segments)
		segments_sync(s->output.segments);
	else
		rec_writer_sync(s->output.writer);
}

/* What the pipeline tells at its end is in it. */
int session_output_end(struct session *s, struct pipeline_stats *ret, struct err *e)
{
	int rc = pipeline_end(s->pipeline, e);
	int ended = s->output.segments ? segments_finish(s->output.segments, rc ? NULL : e) : 0;
	pipeline_stats(s->pipeline, ret);
	if (s->output.segments) {
		segments_stats(s->output.segments, &ret->written);
		ret->bytes = ret->written.bytes;
	}
	return rc ? rc : ended;
}

/* s->pipeline goes. */
int session_output_close(struct session *s, struct err *e)
{
	pthread_mutex_lock(&s->tables_lock);
	int rc = pipeline_close(s->pipeline, e);
	s->pipeline = NULL; /* what the tracer tells from here on is for nobody */
	pthread_mutex_unlock(&s->tables_lock);
	if (s->output.segments)
		segments_free(s->output.segments);
	s->output = (struct output){0};
	return rc;
}
