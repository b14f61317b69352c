/* csv.c - one line per call or counter value, as RFC 4180 describes it: comma, CR LF, and
 * quotes around what holds a comma or a quote. Controls are replaced, so no field holds a line
 * break.
 *
 * A spreadsheet takes a field that begins with = + - @ for a formula: names may hold any, and get
 * a quote before it when asked for (OWASP, CSV injection). Otherwise they are left as they are,
 * since the reader of a trace wants the names unchanged. */
#include <inttypes.h>
#include <string.h>

#include "base/buffer.h"
#include "base/utf8.h"
#include "export/call_view.h"
#include "export/sink.h"

struct sink {
	FILE *out;
	const struct rec_tables *t;
	bool no_formulas;
	struct buf args, clean; /* scratch */
};

static struct sink *csv_open(FILE *out, const struct rec_tables *t)
{
	struct sink *s = xcalloc(1, sizeof(*s));
	s->out = out;
	s->t = t;
	return s;
}

/* Also as wide characters, which East Asian spreadsheets take for the same: U+FF1D, U+FF0B,
 * U+FF0D, U+FF20. */
static bool begins_formula(const struct buf *text)
{
	static const char *const starts[] = {
		"=", "+", "-", "@", "\xef\xbc\x9d", "\xef\xbc\x8b", "\xef\xbc\x8d", "\xef\xbc\xa0"};
	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++)
		if (!strncmp((const char *)text->data, starts[i], strlen(starts[i])))
			return true;
	return false;
}

static void put_quoted(FILE *out, const struct buf *text)
{
	for (size_t i = 0; i < text->len; i++) {
		if (text->data[i] == '"')
			fputc('"', out);
		fputc(text->data[i], out);
	}
}

static void field(struct sink *s, const char *text, size_t len)
{
	s->clean.len = 0;
	utf8_append_clean(&s->clean, text, len, '?');
	bool quoted = strpbrk((const char *)s->clean.data, ",\"") != NULL;
	if (quoted)
		fputc('"', s->out);
	if (s->no_formulas && begins_formula(&s->clean))
		fputc('\'', s->out);
	if (quoted)
		put_quoted(s->out, &s->clean);
	else
		fwrite(s->clean.data, 1, s->clean.len, s->out);
	if (quoted)
		fputc('"', s->out);
}

static void string_field(struct sink *s, uint32_t string)
{
	size_t len;
	const char *text = strtab_get(&s->t->strings, string, &len);
	field(s, text, len);
}

static void csv_no_formulas(struct sink *s)
{
	s->no_formulas = true;
}

static void csv_tables(struct sink *s)
{
	fputs("type,time_ns,duration_ns,pid,tid,thread,layer,name,file,line,depth,flags,args,"
	      "entity,value\r\n",
	      s->out);
}

static void add_arg(struct sink *s, const struct m_probe *p, unsigned i, uint64_t v)
{
	struct buf *b = &s->args;
	const struct rec_tables *t = s->t;
	char shape[SHAPE_TEXT_BYTES];
	buf_printf(b, "%s%s=", b->len ? ";" : "", strtab_get(&t->strings, p->arg_names[i], NULL));
	const char *value_name = call_enum_name(t, p, i, v);
	if (value_name) {
		buf_printf(b, "%s", value_name);
		return;
	}
	switch (p->arg_types[i]) {
	case ARG_TYPE_I64:
		buf_printf(b, "%" PRId64, (int64_t)v);
		break;
	case ARG_TYPE_PTR:
		buf_printf(b, "0x%" PRIx64, v);
		break;
	case ARG_TYPE_BOOL:
		buf_printf(b, "%s", v ? "true" : "false");
		break;
	case ARG_TYPE_STRING:
		buf_printf(b, "%s", strtab_get(&t->strings, (uint32_t)v, NULL));
		break;
	case ARG_TYPE_CODE:
		if (v < t->codes.len)
			buf_printf(b, "%s", strtab_get(&t->strings, t->codes.data[v].name, NULL));
		break;
	case ARG_TYPE_DIM3:
		buf_printf(b, "%u,%u,%u", dim3_x(v), dim3_y(v), dim3_z(v));
		break;
	case ARG_TYPE_SHAPE:
		call_shape_text(v, shape);
		buf_printf(b, "%s", shape);
		break;
	default:
		buf_printf(b, "%" PRIu64, v);
	}
}

static void call_row(struct sink *s, const struct m_call *c)
{
	const struct rec_tables *t = s->t;
	const struct m_probe *p = &t->probes.data[c->probe];
	const struct m_thread *thread = &t->threads.data[c->thread];
	const struct m_code *code;
	uint32_t name = call_name(t, c, &code);
	fprintf(s->out, "call,%" PRIu64 ",%" PRIu64 ",%u,%u,", c->start_ns, c->dur_ns, thread->pid,
		thread->tid);
	string_field(s, thread->comm);
	fputc(',', s->out);
	string_field(s, p->layer);
	fputc(',', s->out);
	string_field(s, name);
	fputc(',', s->out);
	if (code)
		string_field(s, code->file);
	fputc(',', s->out);
	if (code)
		fprintf(s->out, "%u", code->line);
	fprintf(s->out, ",%u,", c->depth);
	const char *between = "";
	for (size_t i = 0; i < CALL_FLAGS; i++) {
		if (!(c->flags & call_flag_names[i].flag))
			continue;
		fprintf(s->out, "%s%s", between, call_flag_names[i].name);
		between = ";";
	}
	fputc(',', s->out);
	s->args.len = 0;
	for (unsigned i = 0; i < c->nargs && i < MODEL_MAX_ARGS; i++)
		if (call_shows_arg(t, c, i))
			add_arg(s, p, i, c->args[i]);
	field(s, (const char *)s->args.data, s->args.len);
	fputs(",,\r\n", s->out);
}

static void csv_calls(struct sink *s, const struct m_call *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		call_row(s, &rows[i]);
}

static void csv_counters(struct sink *s, const struct m_counter *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		fprintf(s->out, "counter,%" PRIu64 ",,,,,,", rows[i].time_ns);
		string_field(s, counter_name(s->t, &rows[i]));
		fputs(",,,,,,", s->out);
		const char *entity = counter_entity(&s->args, s->t, &rows[i]);
		field(s, entity, strlen(entity));
		fprintf(s->out, ",%.15g\r\n", rows[i].value);
	}
}

static void csv_close(struct sink *s)
{
	buf_free(&s->args);
	buf_free(&s->clean);
	free(s);
}

const struct sink_format sink_csv = {
	.name = "csv",
	.extension = "csv",
	.open = csv_open,
	.no_formulas = csv_no_formulas,
	.tables = csv_tables,
	.calls = csv_calls,
	.counters = csv_counters,
	.close = csv_close,
};
