/* flame_svg.c - call trees as a flame graph: one SVG file that draws itself.
 *
 * The file holds three things: a still picture for where scripts do not run (an <img>, a
 * converter), the frames as JSON in <metadata>, and the style and script (flame_svg_page.*)
 * that replace the picture by one that zooms and searches. It loads nothing from elsewhere.
 * Names may be any bytes: what XML cannot hold is replaced, and the script only ever makes
 * text of them. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "export/flame.h"
#include "export/flame_svg_impl.h"

#define STILL_WIDTH 1200 /* pixels, of the picture without a script */
#define STILL_HEAD  76
#define ROW_HEIGHT  17
#define CHAR_WIDTH  6.7 /* of the style's font, for cutting text */
#define MARGIN	    10
#define STEPS	    (10 * STILL_WIDTH) /* frames below a tenth of a pixel are merged */
#define MAX_ROWS    250000
#define MAX_STILL   8000 /* rectangles of the still picture */
#define CHUNK	    512	 /* rows in one JSON array */
#define DIFF_LEVELS 5

/* Class in the style, name in the legend; by enum calltree_kind. */
static const struct {
	const char *class, *label;
} kinds[CALLTREE_KINDS] = {
	[CALLTREE_NATIVE] = {"native", "native"},
	[CALLTREE_PYTHON] = {"python", "Python"},
	[CALLTREE_KERNEL] = {"kernel", "kernel (OS)"},
	[CALLTREE_OPERATOR] = {"operator", "operator"},
	[CALLTREE_GPU] = {"gpu", "GPU"},
	[CALLTREE_OTHER] = {"other", "other"},
};

struct page {
	FILE *out;
	const struct calltree *t;
	struct svg_rows rows;
	int64_t most_change; /* of one frame, against the base */
};

/* ---- text ---- */

/* The bytes as characters that XML 1.0 allows: controls as their pictures (U+2400 on), or "?". */
static void clean_text(struct buf *ret, const char *s, size_t len)
{
	struct buf utf8 = {0};
	ret->len = 0;
	utf8_append(&utf8, s, len);
	for (size_t i = 0; i < utf8.len; i++) {
		const uint8_t *c = utf8.data + i;
		size_t control = utf8_control(c, utf8.len - i);
		if (*c < 0x20 || *c == 0x7f) {
			uint8_t picture[3] = {0xe2, 0x90, (uint8_t)(*c == 0x7f ? 0xa1 : 0x80 + *c)};
			buf_add(ret, picture, 3);
		} else if (control) {
			buf_byte(ret, '?');
			i += control - 1;
		} else if (c[0] == 0xef && c[1] == 0xbf && c[2] >= 0xbe) { /* U+FFFE, U+FFFF */
			buf_add(ret, "\xef\xbf\xbd", 3);
			i += 2;
		} else {
			buf_byte(ret, *c);
		}
	}
	buf_byte(ret, 0);
	ret->len--;
	buf_free(&utf8);
}

static void write_escaped(FILE *out, const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		switch (s[i]) {
		case '&':
			fputs("&amp;", out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			fputc(s[i], out);
		}
	}
}

/* Writes at most max columns of a clean text; characters of three bytes and more count as two
 * columns, which East Asian ones are. */
static void write_cut(FILE *out, const struct buf *text, size_t max)
{
	size_t columns = 0, cut = 0, i = 0;
	while (i < text->len && columns <= max) {
		uint8_t c = text->data[i];
		size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
		columns += n > 2 ? 2 : 1;
		i += n;
		if (columns < max)
			cut = i; /* leaves a column for the dots */
	}
	bool whole = columns <= max;
	write_escaped(out, (const char *)text->data, whole ? text->len : cut);
	if (!whole)
		fputs("\xe2\x80\xa6", out);
}

/* "12.3 ms", "4.00 GiB", "120"; as the script writes it. */
static void amount(char *ret, size_t size, const char *unit, int64_t v)
{
	static const char *const time_units[] = {"ns", "\xc2\xb5s", "ms", "s", NULL};
	static const char *const byte_units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", NULL};
	const char *const *units = !strcmp(unit, "ns")	    ? time_units
				   : !strcmp(unit, "bytes") ? byte_units
							    : NULL;
	double step = units == byte_units ? 1024 : 1000, x = (double)v;
	int n = 0;
	if (!units) {
		snprintf(ret, size, "%" PRId64, v);
		return;
	}
	while (units[n + 1] && fabs(x) >= step) {
		x /= step;
		n++;
	}
	int digits = !n || fabs(x) >= 100 ? 0 : fabs(x) >= 10 ? 1 : 2;
	snprintf(ret, size, "%.*f %s", digits, x, units[n]);
}

static void title_text(struct buf *ret, const struct calltree *t)
{
	const char *title = t->title ? t->title : "";
	clean_text(ret, title, strlen(title));
}

static void frame_name(struct buf *ret, const struct calltree *t, uint32_t frame)
{
	size_t len;
	const char *name = strtab_get(&t->strings, t->frames.data[frame].name, &len);
	clean_text(ret, name, len);
	if (!ret->len)
		clean_text(ret, "[unknown]", 9);
}

static void row_name(struct buf *ret, const struct calltree *t, const struct svg_row *row)
{
	char text[40];
	if (row->depth == 0) {
		clean_text(ret, "all", 3);
	} else if (row->frame == SVG_SMALLER) {
		snprintf(text, sizeof(text), "[%u smaller]", row->merged);
		clean_text(ret, text, strlen(text));
	} else {
		frame_name(ret, t, row->frame);
	}
}

/* ---- colours ---- */

static unsigned kind_of(const struct calltree *t, uint32_t frame)
{
	unsigned kind = frame == SVG_SMALLER ? CALLTREE_OTHER : t->frames.data[frame].kind;
	return kind < CALLTREE_KINDS ? kind : CALLTREE_OTHER;
}

/* Neighbours differ by shade; a name has the same one in every graph. */
static unsigned shade_of(const struct calltree *t, uint32_t frame)
{
	size_t len;
	const char *name = strtab_get(&t->strings, t->frames.data[frame].name, &len);
	return hash_bytes(name, len) % 3;
}

/* How much a frame grew, in steps of the most that one did; below 0 where it shrank. */
static int change_level(const struct page *p, const struct svg_row *row)
{
	int64_t change = row->total[0] - row->total[1];
	if (!change || !p->most_change)
		return 0;
	double part = sqrt(fabs((double)change) / (double)p->most_change);
	int level = (int)ceil(part * DIFF_LEVELS);
	return change > 0 ? level : -level;
}

static void find_most_change(struct page *p)
{
	for (size_t i = 0; i < p->rows.rows.len; i++) {
		const struct svg_row *row = &p->rows.rows.data[i];
		int64_t change = llabs(row->total[0] - row->total[1]);
		if (change > p->most_change)
			p->most_change = change;
	}
}

static void write_class(const struct page *p, const struct svg_row *row)
{
	int level = change_level(p, row);
	if (!p->t->differential)
		fprintf(p->out, "%s s%u", kinds[kind_of(p->t, row->frame)].class,
			row->frame == SVG_SMALLER ? 0 : shade_of(p->t, row->frame));
	else if (level)
		fprintf(p->out, "%s l%d", level > 0 ? "grew" : "shrank", abs(level));
	else
		fputs("same", p->out);
}

/* ---- the still picture ---- */

static void still_frame(const struct page *p, const struct svg_row *row, double x, double width)
{
	struct buf name = {0};
	double y = STILL_HEAD + (p->rows.depth - 1.0 - row->depth) * ROW_HEIGHT;
	double columns = (width - 6) / CHAR_WIDTH;
	fprintf(p->out, "<rect x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"%d\" class=\"", x, y,
		width, ROW_HEIGHT - 1);
	write_class(p, row);
	fputs("\"/>\n", p->out);
	if (columns >= 3) {
		row_name(&name, p->t, row);
		fprintf(p->out, "<text x=\"%.1f\" y=\"%.0f\">", x + 3, y + 12);
		write_cut(p->out, &name, (size_t)columns);
		fputs("</text>\n", p->out);
	}
	buf_free(&name);
}

/* The least width of a frame that leaves few enough of them, 1 pixel or more. */
static double still_least(const struct page *p, double scale)
{
	for (double least = 1;; least *= 2) {
		size_t n = 0;
		for (size_t i = 0; i < p->rows.rows.len; i++)
			n += (double)p->rows.rows.data[i].total[0] * scale >= least;
		if (n <= MAX_STILL || least > STILL_WIDTH)
			return least;
	}
}

static void still_frames(const struct page *p)
{
	int64_t all = p->rows.rows.data[0].total[0];
	double scale = all ? (STILL_WIDTH - 2.0 * MARGIN) / (double)all : 0;
	double least = still_least(p, scale);
	double *next = xcalloc(p->rows.depth + 1, sizeof(*next)); /* where a level goes on */
	next[0] = MARGIN;
	for (size_t i = 0; i < p->rows.rows.len; i++) {
		const struct svg_row *row = &p->rows.rows.data[i];
		double x = next[row->depth], width = (double)row->total[0] * scale;
		next[row->depth] += width;
		next[row->depth + 1] = x;
		if (width >= least)
			still_frame(p, row, x, width);
	}
	free(next);
}

static void still_legend(const struct page *p)
{
	double x = MARGIN;
	if (p->t->differential) {
		fprintf(p->out,
			"<rect x=\"%.0f\" y=\"54\" width=\"12\" height=\"12\" class=\"grew l5\"/>"
			"<text x=\"%.0f\" y=\"64\">more than in the base</text>"
			"<rect x=\"%.0f\" y=\"54\" width=\"12\" height=\"12\" class=\"shrank l5\"/>"
			"<text x=\"%.0f\" y=\"64\">less</text>\n",
			x, x + 17, x + 180, x + 197);
		return;
	}
	for (int i = 0; i < CALLTREE_KINDS; i++) {
		fprintf(p->out,
			"<rect x=\"%.0f\" y=\"54\" width=\"12\" height=\"12\" class=\"%s s0\"/>"
			"<text x=\"%.0f\" y=\"64\">%s</text>\n",
			x, kinds[i].class, x + 17, kinds[i].label);
		x += 40 + CHAR_WIDTH * (double)strlen(kinds[i].label);
	}
}

/* "Total 12.3 s, base 10.1 s, over 30.0 s": the line below the title. */
static void write_subtitle(const struct page *p)
{
	const struct calltree *t = p->t;
	char text[64];
	amount(text, sizeof(text), t->unit, p->rows.rows.data[0].total[0]);
	fprintf(p->out, "%s: total %s", t->type, text);
	if (t->differential) {
		amount(text, sizeof(text), t->unit, p->rows.rows.data[0].total[1]);
		fprintf(p->out, ", base %s", text);
	}
	if (t->duration_ns) {
		amount(text, sizeof(text), "ns", (int64_t)t->duration_ns);
		fprintf(p->out, ", recorded over %s", text);
	}
	if (t->period_ns)
		fprintf(p->out, ", %.0f samples/s", 1e9 / (double)t->period_ns);
}

static void still_picture(const struct page *p)
{
	fputs("<g id=\"still\">\n<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n", p->out);
	fprintf(p->out, "<text class=\"title\" x=\"%d\" y=\"24\">", MARGIN);
	struct buf title = {0};
	title_text(&title, p->t);
	write_cut(p->out, &title, 120);
	fprintf(p->out, "</text>\n<text id=\"subtitle\" class=\"page-text\" x=\"%d\" y=\"42\">",
		MARGIN);
	write_subtitle(p);
	fputs("</text>\n<g class=\"page-text\">", p->out);
	still_legend(p);
	fputs("</g>\n", p->out);
	still_frames(p);
	fputs("</g>\n", p->out);
	buf_free(&title);
}

/* ---- the frames as JSON ---- */

/* Numbers in the file of strings and frames that are drawn: 0 = not yet written. */
struct numbering {
	uint32_t *of;
	uint32_t len;
};

/* One JSON value as an element of its own, so that large lists are written in parts. */
static void data_element(FILE *out, const char *class, json_t *v)
{
	char *text = json_dumps(v, JSON_COMPACT);
	fprintf(out, "<metadata class=\"%s\">", class);
	write_escaped(out, text, strlen(text));
	fputs("</metadata>\n", out);
	free(text);
	json_decref(v);
}

static json_t *json_clean(const char *s, size_t len)
{
	struct buf clean = {0};
	clean_text(&clean, s, len);
	json_t *ret = json_stringn((const char *)clean.data, clean.len);
	buf_free(&clean);
	return ret;
}

static void add_integer(json_t *list, int64_t v)
{
	json_array_append_new(list, json_integer(v));
}

static json_t *about(const struct page *p)
{
	json_t *o = json_object(), *list = json_array();
	for (int i = 0; i < CALLTREE_KINDS; i++)
		json_array_append_new(list, json_pack("[s, s]", kinds[i].class, kinds[i].label));
	const char *title = p->t->title ? p->t->title : "";
	json_object_set_new(o, "title", json_clean(title, strlen(title)));
	json_object_set_new(o, "unit", json_string(p->t->unit));
	json_object_set_new(o, "differential", json_boolean(p->t->differential));
	json_object_set_new(o, "other", json_integer(CALLTREE_OTHER));
	json_object_set_new(o, "kinds", list);
	return o;
}

static void string_use(const struct page *p, struct numbering *n, json_t **chunk, uint32_t string)
{
	size_t len;
	if (string >= strtab_len(&p->t->strings) || n->of[string])
		return;
	const char *s = strtab_get(&p->t->strings, string, &len);
	n->of[string] = ++n->len;
	json_array_append_new(*chunk, json_clean(s, len));
	if (json_array_size(*chunk) < CHUNK)
		return;
	data_element(p->out, "strings", *chunk);
	*chunk = json_array();
}

static uint32_t string_number(const struct page *p, const struct numbering *n, uint32_t string)
{
	return string < strtab_len(&p->t->strings) ? n->of[string] - 1 : 0;
}

/* Writes the strings of the drawn frames, then the frames:
 * [kind, name, file, line, library, shade]. */
static void write_frames(const struct page *p, struct numbering *frames)
{
	const struct calltree *t = p->t;
	struct numbering strings = {0};
	VEC(uint32_t) used = {0};
	strings.of = xcalloc(strtab_len(&t->strings) + 1, sizeof(*strings.of));
	json_t *chunk = json_array();
	string_use(p, &strings, &chunk, 0);
	for (size_t i = 0; i < p->rows.rows.len; i++) {
		uint32_t frame = p->rows.rows.data[i].frame;
		if (frame == SVG_SMALLER || frames->of[frame])
			continue;
		const struct calltree_frame *f = &t->frames.data[frame];
		frames->of[frame] = ++frames->len;
		*vec_push(&used) = frame;
		string_use(p, &strings, &chunk, f->name);
		string_use(p, &strings, &chunk, f->file);
		string_use(p, &strings, &chunk, f->library);
	}
	data_element(p->out, "strings", chunk);
	chunk = json_array();
	for (size_t i = 0; i < used.len; i++) {
		const struct calltree_frame *f = &t->frames.data[used.data[i]];
		json_t *row = json_array();
		add_integer(row, kind_of(t, used.data[i]));
		add_integer(row, string_number(p, &strings, f->name));
		add_integer(row, string_number(p, &strings, f->file));
		add_integer(row, f->line);
		add_integer(row, string_number(p, &strings, f->library));
		add_integer(row, shade_of(t, used.data[i]));
		json_array_append_new(chunk, row);
		if (json_array_size(chunk) == CHUNK) {
			data_element(p->out, "frames", chunk);
			chunk = json_array();
		}
	}
	data_element(p->out, "frames", chunk);
	vec_free(&used);
	free(strings.of);
}

/* The rows, all numbers in one list: depth, frame (or minus the number of merged ones), total,
 * self; of differential ones also the base's total and self, and the level of change. */
static void write_rows(const struct page *p, const struct numbering *frames)
{
	json_t *chunk = json_array();
	for (size_t i = 0; i < p->rows.rows.len; i++) {
		const struct svg_row *row = &p->rows.rows.data[i];
		add_integer(chunk, row->depth);
		add_integer(chunk, row->frame == SVG_SMALLER ? -(int64_t)row->merged
							     : frames->of[row->frame] - 1);
		add_integer(chunk, row->total[0]);
		add_integer(chunk, row->self[0]);
		if (p->t->differential) {
			add_integer(chunk, row->total[1]);
			add_integer(chunk, row->self[1]);
			add_integer(chunk, change_level(p, row));
		}
		if (i % CHUNK == CHUNK - 1) {
			data_element(p->out, "rows", chunk);
			chunk = json_array();
		}
	}
	data_element(p->out, "rows", chunk);
}

static void write_data(const struct page *p)
{
	struct numbering frames = {xcalloc(p->t->frames.len + 1, sizeof(uint32_t)), 0};
	data_element(p->out, "about", about(p));
	write_frames(p, &frames);
	write_rows(p, &frames);
	free(frames.of);
}

/* ---- the file ---- */

static int svg_write(FILE *out, const struct calltree *t, struct err *e)
{
	struct page p = {.out = out, .t = t};
	struct buf title = {0};
	if (!t->nodes.len)
		return err_set(e, EINVAL, "the call tree has no root");
	svg_rows_make(&p.rows, t, STEPS, MAX_ROWS);
	find_most_change(&p);
	unsigned height = STILL_HEAD + p.rows.depth * ROW_HEIGHT + MARGIN;
	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\""
		" viewBox=\"0 0 %d %u\">\n<title>",
		STILL_WIDTH, height, STILL_WIDTH, height);
	title_text(&title, t);
	write_escaped(out, (const char *)title.data, title.len);
	fprintf(out, "</title>\n<style><![CDATA[\n%s]]></style>\n", flame_svg_style);
	still_picture(&p);
	write_data(&p);
	fprintf(out, "<script><![CDATA[\n%s]]></script>\n</svg>\n", flame_svg_script);
	svg_rows_free(&p.rows);
	buf_free(&title);
	return 0;
}

const struct flame_format flame_svg = {
	.name = "svg",
	.extension = "svg",
	.write = svg_write,
};
