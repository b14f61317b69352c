/* report_flops.c - floating-point operations in the report: how many, how fast, how much of what
 * the devices can do, and what of the GPU's time that tells of. */
#include <inttypes.h>
#include <stdlib.h>

#include "analyze/flops.h"
#include "base/human.h"
#include "base/kernel_name.h"
#include "base/layer.h"
#include "report/report_section.h"
#include "symbolize/demangle.h"

#define OTHERS_SHOWN 5

static void *begin(const struct report *r, struct report_visitors *v)
{
	const struct report_options *o = r->options;
	struct flops *f = xcalloc(1, sizeof(*f));
	v->after[v->nafter++] = flops_visitor(
		f, r->source, r->timeline, &(struct flops_options){o->pid, o->from_ns, o->to_ns});
	return f;
}

static bool make(const struct report *r, void *state)
{
	const struct flops *f = state;
	(void)r;
	return f->model > 0 || f->unknown;
}

static void end(void *state)
{
	flops_free(state);
	free(state);
}

/* Calls that were counted in the kernel (modes tail, stats) have no shapes. */
static bool is_partial(const struct rec_tables *t)
{
	for (size_t i = 0; i < t->hists.len; i++) {
		const struct m_probe *p = &t->probes.data[t->hists.data[i].probe];
		if (layer_traits_of_name(strtab_get(&t->strings, p->layer, NULL)) &
		    LAYER_HAS_OPERATORS)
			return true;
	}
	return report_turned_down(t, LAYER_HAS_OPERATORS);
}

/* Operations a second, 0 where there is no time. */
static double rate(double n, uint64_t ns)
{
	return ns ? n / ((double)ns / 1e9) : 0;
}

/* ---- text ---- */

#define FLOPS_TEXT 32

/* Three digits and a unit: "12.3 TFLOP". */
static const char *flop_text(char ret[static FLOPS_TEXT], double n)
{
	static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
	size_t unit = 0;
	while (n >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		n /= 1000;
		unit++;
	}
	int decimals = !unit || n >= 99.95 ? 0 : n >= 9.995 ? 1 : 2;
	snprintf(ret, FLOPS_TEXT, "%.*f %sFLOP", decimals, n, units[unit]);
	return ret;
}

static const char *rate_text(char ret[static FLOPS_TEXT], double per_s)
{
	char n[FLOPS_TEXT];
	if (per_s <= 0)
		snprintf(ret, FLOPS_TEXT, "-");
	else
		snprintf(ret, FLOPS_TEXT, "%.29s/s", flop_text(n, per_s));
	return ret;
}

static void kernel_text(char ret[static KERNEL_NAME_BYTES], const char *mangled)
{
	char *plain = demangle(mangled, 0);
	kernel_name_short(ret, KERNEL_NAME_BYTES, plain);
	free(plain);
}

static void utilisation_text(const struct page *p, const struct flops *f)
{
	static const char *const formats[] = FLOPS_FORMAT_NAMES;
	double mfu = flops_utilisation(f, false), hfu = flops_utilisation(f, true);
	if (!f->devices)
		return;
	if (mfu < 0) {
		text_printf(p->out, "  utilisation unknown: the peak of %s is not known\n",
			    f->device ? f->device : "these devices");
		return;
	}
	struct buf line = {0};
	buf_printf(&line, "  model FLOPs utilisation %.1f %%", mfu * 100);
	if (hfu > mfu * 1.0005)
		buf_printf(&line, " (%.1f %% with what is computed again)", hfu * 100);
	buf_printf(&line, " of %u x %s:", f->devices, f->device);
	const char *between = "";
	for (int i = 0; i < FLOPS_FORMATS; i++) {
		if (f->by_format[i] <= 0)
			continue;
		buf_printf(&line, "%s %.0f %% %s", between, 100 * f->by_format[i] / f->model,
			   formats[i]);
		between = ",";
	}
	buf_byte(&line, 0);
	page_wrapped(p, 0, 4, "%s", (char *)line.data);
	buf_free(&line);
}

static void speed_text(const struct page *p, const struct flops *f)
{
	char total[FLOPS_TEXT], wall[FLOPS_TEXT], busy[FLOPS_TEXT], counted[FLOPS_TEXT];
	char time[HUMAN_BYTES];
	struct buf line = {0};
	buf_printf(&line, "  %s in %s: %s", flop_text(total, f->model), human_ns(time, f->wall_ns),
		   rate_text(wall, rate(f->model, f->wall_ns)));
	if (f->busy_ns)
		buf_printf(&line, ", %s while a GPU was busy",
			   rate_text(busy, rate(f->model, f->busy_ns)));
	if (f->counted_ns)
		buf_printf(&line, ", %s in the kernels that did them",
			   rate_text(counted, rate(f->model - f->graph_model, f->counted_ns)));
	else if (f->host_ns)
		buf_printf(&line, ", %s in the calls themselves",
			   rate_text(counted, rate(f->model - f->graph_model, f->host_ns)));
	buf_byte(&line, 0);
	page_wrapped(p, 0, 4, "%s", (char *)line.data);
	buf_free(&line);
}

static void coverage_text(const struct page *p, const struct flops *f)
{
	char count[HUMAN_BYTES], plain[KERNEL_NAME_BYTES];
	if (f->kernels_ns) {
		fprintf(p->out, "  counted calls launched %.1f %% of the kernels' time",
			100 * (double)f->counted_ns / (double)f->kernels_ns);
		if (f->graphs_ns)
			fprintf(p->out, ", CUDA graphs %.1f %%",
				100 * (double)f->graphs_ns / (double)f->kernels_ns);
		fputc('\n', p->out);
	}
	for (size_t i = 0; i < f->others.len && i < OTHERS_SHOWN; i++) {
		kernel_text(plain, f->others.data[i].name);
		fprintf(p->out, "    %s ", i ? "       " : "others:");
		page_ns(p, f->others.data[i].ns, COLUMN_TIME);
		page_rest(p, plain, 12 + COLUMN_TIME);
	}
	if (f->graph_unknown)
		fprintf(p->out,
			"  %s launches of CUDA graphs are not counted: their making was not seen\n",
			human_count(count, f->graph_unknown));
	if (f->unknown)
		fprintf(p->out, "  %s calls are not counted: a shape is not known\n",
			human_count(count, f->unknown));
}

static void activity_text(const struct page *p, const struct flops *f)
{
	static const char *const names[] = {"SM", "occupancy", "tensor cores", "memory"};
	const char *between = "  activity in that time by the GPUs' own counters:";
	struct buf line = {0};
	for (int i = 0; i < FLOPS_ACTIVITIES; i++) {
		if (f->activity[i] < 0)
			continue;
		buf_printf(&line, "%s %s %.1f %%", between, names[i], f->activity[i] * 100);
		between = ",";
	}
	buf_byte(&line, 0);
	if (line.len > 1)
		page_wrapped(p, 0, 4, "%s", (char *)line.data);
	buf_free(&line);
}

static void row_text(const struct page *p, const struct flops_row *row, const char *name)
{
	static const char *const formats[] = FLOPS_FORMAT_NAMES;
	char n[FLOPS_TEXT], per_s[FLOPS_TEXT];
	uint64_t ns = row->device_ns ? row->device_ns : row->host_ns;
	page_count(p, row->calls, COLUMN_CALLS);
	page_right(p, flop_text(n, row->model), COLUMN_TIME + 4);
	page_ns(p, ns, COLUMN_TIME);
	page_right(p, rate_text(per_s, rate(row->model, ns)), COLUMN_TIME + 5);
	fprintf(p->out, "  %-7s", formats[row->format]);
	page_rest(p, name, COLUMN_CALLS + 3 * COLUMN_TIME + 18);
}

static void table_text(const struct page *p, const flops_rows_t *rows, const char *what,
		       bool kernels)
{
	size_t shown = page_shown(p, rows->len);
	char plain[KERNEL_NAME_BYTES];
	if (!rows->len)
		return;
	page_right(p, "calls", COLUMN_CALLS);
	page_right(p, "work", COLUMN_TIME + 4);
	page_right(p, "time", COLUMN_TIME);
	page_right(p, "speed", COLUMN_TIME + 5);
	fprintf(p->out, "  format   %s\n", what);
	for (size_t i = 0; i < shown; i++) {
		if (kernels)
			kernel_text(plain, rows->data[i].name);
		row_text(p, &rows->data[i], kernels ? plain : rows->data[i].name);
	}
	page_more(p, rows->len, shown, COLUMN_CALLS);
}

static void text(const struct page *p, const void *state)
{
	const struct flops *f = state;
	fputc('\n', p->out);
	page_styled(p, BOLD, "floating-point operations");
	fputs(": matrix products, convolutions, attention\n", p->out);
	if (is_partial(p->r->tables))
		fputs("  incomplete: of the recorded calls alone (modes tail, stats)\n", p->out);
	speed_text(p, f);
	utilisation_text(p, f);
	coverage_text(p, f);
	activity_text(p, f);
	table_text(p, &f->operators,
		   f->counted_ns ? "operator, by work; time on the GPU"
				 : "operator, by work; time of the calls",
		   false);
	table_text(p, &f->graphs, "operator, run by CUDA graphs", false);
	table_text(p, &f->kernels, "kernel that took most of the call's time", true);
}

/* ---- JSON ---- */

/* Whole as far as a double is. */
static json_t *flop_json(double n)
{
	return n < 9007199254740992.0 ? json_integer((json_int_t)n) : json_real(n);
}

static json_t *known_json(double v)
{
	return v >= 0 ? json_real(v) : json_null();
}

static json_t *rate_json(double n, uint64_t ns)
{
	return ns ? json_real(rate(n, ns) / 1e12) : json_null();
}

static json_t *row_json(const struct flops_row *row)
{
	static const char *const kinds[] = FLOPS_KIND_NAMES, *const formats[] = FLOPS_FORMAT_NAMES;
	json_t *o = json_object();
	json_object_set_new(o, "name", report_text_json(row->name));
	if (row->kind)
		json_object_set_new(o, "kind", json_string(kinds[row->kind]));
	json_object_set_new(o, "format", json_string(formats[row->format]));
	json_object_set_new(o, "calls", report_number_json(row->calls));
	json_object_set_new(o, "model_flop", flop_json(row->model));
	json_object_set_new(o, "hardware_flop", flop_json(row->hardware));
	if (row->kind)
		json_object_set_new(o, "host_ns", report_number_json(row->host_ns));
	json_object_set_new(o, "device_ns", report_number_json(row->device_ns));
	json_object_set_new(o, "tflops",
			    rate_json(row->model, row->device_ns ? row->device_ns : row->host_ns));
	return o;
}

static void rows_json(struct json_stream *out, const char *key, const struct report *r,
		      const flops_rows_t *rows)
{
	json_stream_array(out, key);
	for (size_t i = 0; i < rows->len && (!r->options->top || i < r->options->top); i++)
		json_stream_put(out, NULL, row_json(&rows->data[i]));
	json_stream_close(out);
}

static void others_json(struct json_stream *out, const struct report *r, const struct flops *f)
{
	json_stream_array(out, "others");
	for (size_t i = 0; i < f->others.len && (!r->options->top || i < r->options->top); i++)
		json_stream_put(out, NULL,
				json_pack("{s:o,s:o}", "name",
					  report_text_json(f->others.data[i].name), "ns",
					  report_number_json(f->others.data[i].ns)));
	json_stream_close(out);
}

static json_t *formats_json(const double by_format[FLOPS_FORMATS])
{
	static const char *const formats[] = FLOPS_FORMAT_NAMES;
	json_t *o = json_object();
	for (int i = 0; i < FLOPS_FORMATS; i++)
		if (by_format[i] > 0)
			json_object_set_new(o, formats[i], flop_json(by_format[i]));
	return o;
}

static json_t *coverage_json(const struct flops *f)
{
	json_t *o = json_object();
	json_object_set_new(o, "kernels_ns", report_number_json(f->kernels_ns));
	json_object_set_new(o, "counted_ns", report_number_json(f->counted_ns));
	json_object_set_new(o, "graphs_ns", report_number_json(f->graphs_ns));
	json_object_set_new(o, "ratio",
			    f->kernels_ns ? json_real((double)f->counted_ns / (double)f->kernels_ns)
					  : json_null());
	json_object_set_new(o, "calls", report_number_json(f->calls));
	json_object_set_new(o, "calls_within", report_number_json(f->within));
	json_object_set_new(o, "calls_unknown", report_number_json(f->unknown));
	json_object_set_new(o, "calls_captured", report_number_json(f->captured));
	json_object_set_new(o, "graph_launches", report_number_json(f->graph_launches));
	json_object_set_new(o, "graph_launches_unknown", report_number_json(f->graph_unknown));
	return o;
}

static json_t *activity_json(const struct flops *f)
{
	static const char *const names[] = FLOPS_ACTIVITY_NAMES;
	json_t *o = json_object();
	for (int i = 0; i < FLOPS_ACTIVITIES; i++)
		if (f->activity[i] >= 0)
			json_object_set_new(o, names[i], json_real(f->activity[i]));
	return o;
}

static void json(struct json_stream *out, const struct report *r, const void *state)
{
	const struct flops *f = state;
	json_stream_object(out, "flops");
	json_stream_put(out, "model_flop", flop_json(f->model));
	json_stream_put(out, "hardware_flop", flop_json(f->hardware));
	json_stream_put(out, "graph_flop", flop_json(f->graph_model));
	json_stream_put(out, "masked_flop", flop_json(f->masked));
	json_stream_put(out, "partial", json_boolean(is_partial(r->tables)));
	json_stream_put(out, "by_format", formats_json(f->by_format));
	json_stream_put(out, "first_ns", report_number_json(f->first_ns));
	json_stream_put(out, "last_ns", report_number_json(f->last_ns));
	json_stream_put(out, "wall_ns", report_number_json(f->wall_ns));
	json_stream_put(out, "busy_ns", report_number_json(f->busy_ns));
	json_stream_put(out, "host_ns", report_number_json(f->host_ns));
	json_stream_put(out, "tflops_wall", rate_json(f->model, f->wall_ns));
	json_stream_put(out, "tflops_busy", rate_json(f->model, f->busy_ns));
	json_stream_put(out, "tflops_counted", rate_json(f->model - f->graph_model, f->counted_ns));
	json_stream_put(out, "device", report_text_json(f->device));
	json_stream_put(out, "devices", report_number_json(f->devices));
	json_stream_put(out, "mfu_ratio", known_json(flops_utilisation(f, false)));
	json_stream_put(out, "hfu_ratio", known_json(flops_utilisation(f, true)));
	json_stream_put(out, "coverage", coverage_json(f));
	json_stream_put(out, "activity", activity_json(f));
	rows_json(out, "operators", r, &f->operators);
	rows_json(out, "kernels", r, &f->kernels);
	rows_json(out, "graphs", r, &f->graphs);
	others_json(out, r, f);
	json_stream_close(out);
}

static double relevance(const struct report *r, const void *state)
{
	const struct flops *f = state;
	return RELEVANT_AFTER * report_share(r, f->counted_ns ? f->counted_ns : f->host_ns);
}

const struct report_section report_flops = {.name = "flops",
					    .begin = begin,
					    .make = make,
					    .relevance = relevance,
					    .text = text,
					    .json = json,
					    .end = end};
