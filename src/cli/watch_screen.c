/* watch_screen.c - the lines of `eacgm watch`: steps, calls by layer, GPUs, cost and losses,
 * anomalies. */
#include "cli/watch_screen.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analyze/cost.h"
#include "base/human.h"
#include "events/metric.h"

#define LINE_BYTES    1024
#define NAME_COLUMNS  7
#define SPARK_MOST    60 /* of calls */
#define SPARK_LEAST   10
#define BAR_COLUMNS   10
#define OTHERS_MOST   4	  /* counters */
#define SHARE_LEAST   0.1 /* of these */
#define KEPT_ROWS     3	  /* for the anomalies and the latest two */
#define SPACIOUS_ROWS 16  /* from there on parts are apart */

enum style { PLAIN, BOLD, DIM, ALARM, WARN };

struct screen {
	struct buf *out;
	const struct live_state *s;
	const struct watch_size *size;
	unsigned most;	 /* lines: some are kept for the anomalies */
	unsigned row;	 /* lines that are done */
	unsigned column; /* of the line that is being written */
};

/* ---- lines ---- */

static bool is_full(const struct screen *p)
{
	return p->row >= p->most;
}

static void begin_line(struct screen *p)
{
	if (p->row)
		buf_byte(p->out, '\n');
	p->row++;
	p->column = 0;
}

static void put_styled(struct screen *p, enum style style, const char *text)
{
	static const char *const codes[] = {"", "\033[1m", "\033[2m", "\033[1;31m", "\033[33m"};
	char fitted[LINE_BYTES];
	if (p->column >= p->size->columns || !*text)
		return;
	p->column += (unsigned)text_fit(fitted, sizeof(fitted), text, p->size->columns - p->column);
	bool colour = p->size->colour && style != PLAIN;
	if (colour)
		buf_add(p->out, codes[style], strlen(codes[style]));
	buf_add(p->out, fitted, strlen(fitted));
	if (colour)
		buf_add(p->out, "\033[0m", 4);
}

/* A sentence, whose end is the least of it. */
static void put_sentence(struct screen *p, enum style style, const char *text)
{
	char cut[LINE_BYTES];
	size_t room = p->size->columns > p->column ? p->size->columns - p->column : 0, at = 0;
	if (text_columns(text) <= room || !room) {
		put_styled(p, style, text);
		return;
	}
	for (size_t n = 0; text[at] && at + 8 < sizeof(cut); at++) {
		n += ((unsigned char)text[at] & 0xc0) != 0x80;
		if (n == room)
			break;
	}
	snprintf(cut, sizeof(cut), "%.*s…", (int)at, text);
	put_styled(p, style, cut);
}

__attribute__((format(printf, 3, 4))) static void put(struct screen *p, enum style style,
						      const char *fmt, ...)
{
	char text[LINE_BYTES];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put_sentence(p, style, text);
}

/* Spaces up to a column. */
static void put_to(struct screen *p, unsigned column)
{
	for (; p->column < column && p->column < p->size->columns; p->column++)
		buf_byte(p->out, ' ');
}

/* Text whose end is at a column. */
static void put_right(struct screen *p, unsigned column, const char *text)
{
	unsigned wide = (unsigned)text_columns(text);
	put_to(p, column > wide ? column - wide : 0);
	put_styled(p, PLAIN, text);
}

static void put_label(struct screen *p, const char *label)
{
	put_styled(p, BOLD, label);
	put_to(p, NAME_COLUMNS + 1);
}

/* ---- blocks ---- */

static const char *block(double ratio, bool ascii)
{
	static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const letters[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
	int level = (int)(ratio * 7.999);
	level = level < 0 ? 0 : level > 7 ? 7 : level;
	return ascii ? letters[level] : blocks[level];
}

void watch_sparkline(struct buf *out, const struct live_history *h, unsigned n, bool ascii)
{
	double most = 0;
	n = n < h->len ? n : h->len;
	for (uint32_t i = h->len - n; i < h->len; i++)
		most = fmax(most, live_history_at(h, i));
	for (uint32_t i = h->len - n; i < h->len; i++) {
		double v = live_history_at(h, i);
		const char *text = isfinite(v) ? block(most > 0 ? v / most : 0, ascii) : " ";
		buf_add(out, text, strlen(text));
	}
}

static void put_sparkline(struct screen *p, const struct live_history *h, unsigned columns)
{
	unsigned room = p->size->columns > p->column ? p->size->columns - p->column : 0;
	columns = columns < room ? columns : room;
	watch_sparkline(p->out, h, columns, p->size->ascii);
	p->column += columns < h->len ? columns : h->len;
}

static void put_bar(struct screen *p, double ratio)
{
	const char *full = p->size->ascii ? "#" : "█", *empty = p->size->ascii ? "." : "░";
	unsigned filled = (unsigned)lround(fmin(fmax(ratio, 0), 1) * BAR_COLUMNS);
	char text[BAR_COLUMNS * 4 + 1] = "";
	size_t len = 0;
	for (unsigned i = 0; i < BAR_COLUMNS; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s",
					i < filled ? full : empty);
	put_styled(p, PLAIN, text);
}

/* ---- parts ---- */

static const char *clock_of(char ret[static HUMAN_BYTES], uint64_t ns)
{
	uint64_t s = ns / 1000000000;
	snprintf(ret, HUMAN_BYTES, "%llu:%02u:%02u", (unsigned long long)(s / 3600),
		 (unsigned)(s / 60 % 60), (unsigned)(s % 60));
	return ret;
}

static uint64_t since(uint64_t now_ns, uint64_t ns)
{
	return now_ns > ns ? now_ns - ns : 0;
}

static void draw_head(struct screen *p)
{
	const struct live_state *s = p->s;
	char right[128], clock[HUMAN_BYTES], head[LINE_BYTES];
	snprintf(right, sizeof(right), "%u process%s  %s  q quits", s->processes,
		 s->processes == 1 ? "" : "es", clock_of(clock, since(s->now_ns, s->start_ns)));
	unsigned wide = (unsigned)strlen(right) + 2;
	begin_line(p);
	put_styled(p, BOLD, "eacgm watch ");
	if (p->size->columns > p->column + wide) {
		text_fit(head, sizeof(head), s->target, p->size->columns - p->column - wide);
		put_styled(p, PLAIN, head);
	}
	put_right(p, p->size->columns, right);
}

static void draw_steps(struct screen *p)
{
	const struct live_steps_view *t = &p->s->steps;
	char last[HUMAN_BYTES], median[HUMAN_BYTES], longest[HUMAN_BYTES], count[HUMAN_BYTES];
	begin_line(p);
	put_label(p, "steps");
	if (!t->history.len) {
		put(p, DIM, "%s",
		    p->s->phases.looking ? "looking for what repeats" : "none found so far");
		return;
	}
	put(p, PLAIN, "%s  last %s  median %s  longest %s  ", human_count(count, t->count),
	    human_ns(last, t->last_ns), human_ns(median, t->median_ns),
	    human_ns(longest, t->longest_ns));
	uint64_t open_ns = since(p->s->now_ns, t->since_ns);
	if (open_ns > 2000000000 && open_ns > 3 * t->median_ns)
		put(p, ALARM, "none for %s", human_ns(last, open_ns));
	else
		put(p, DIM, "%s%sby %s, pid %u", t->kind, *t->kind ? ", " : "", t->marker, t->pid);
	if (is_full(p))
		return;
	begin_line(p);
	put_to(p, NAME_COLUMNS + 1);
	put_sparkline(p, &t->history, p->size->columns);
}

/* "train.py (7): 300 of training, 17.8 ms each on average: load 96 %": where there is no room for
 * it the shares are on a line of their own. */
static void put_phases(struct screen *p, const char *text)
{
	const char *shares = strrchr(text, ':');
	bool fits = text_columns(text) + NAME_COLUMNS + 1 <= p->size->columns;
	put(p, PLAIN, "%.*s", fits || !shares ? LIVE_PHASE_BYTES : (int)(shares - text) + 1, text);
	if (fits || !shares || is_full(p))
		return;
	begin_line(p);
	put_to(p, NAME_COLUMNS + 3);
	put(p, PLAIN, "%s", shares + 1 + (shares[1] == ' '));
}

/* In the last interval, of each process with steps. */
static void draw_phases(struct screen *p)
{
	const struct live_phases *t = &p->s->phases;
	for (uint32_t i = 0; i < t->len && !is_full(p); i++) {
		begin_line(p);
		put_label(p, i ? "" : "phases");
		put_phases(p, t->of[i]);
	}
	if (!t->more || is_full(p))
		return;
	begin_line(p);
	put_to(p, NAME_COLUMNS + 1);
	put(p, DIM, "and %u more processes with steps", t->more);
}

static unsigned spark_columns(const struct screen *p)
{
	unsigned room = p->size->columns > 60 ? (p->size->columns - 20) / 2 : 0;
	return room > SPARK_MOST ? SPARK_MOST : room < SPARK_LEAST ? 0 : room;
}

static void draw_layer(struct screen *p, const struct live_layer *l)
{
	char rate[HUMAN_BYTES], text[HUMAN_BYTES];
	unsigned spark = spark_columns(p), at = NAME_COLUMNS + 12;
	begin_line(p);
	put_styled(p, PLAIN, l->name);
	put_right(p, at - 2, human_count(rate, (uint64_t)(l->calls_per_s + 0.5)));
	if (spark) {
		/* the newest is at the right */
		uint32_t shown = l->history.len < spark ? l->history.len : spark;
		put_to(p, at + spark - shown);
		put_sparkline(p, &l->history, spark);
		at += spark + 2;
	}
	if (!*l->busiest)
		return;
	put_to(p, at);
	put(p, PLAIN, "%s ", human_ns(text, (uint64_t)l->busiest_ns_per_s));
	put_styled(p, DIM, l->busiest);
}

static void draw_layers(struct screen *p)
{
	const struct live_state *s = p->s;
	unsigned spark = spark_columns(p), at = NAME_COLUMNS + 12;
	begin_line(p);
	put_styled(p, BOLD, "calls");
	put_right(p, at - 2, "a second");
	if (spark) {
		put_to(p, at);
		put(p, PLAIN, "the last %u s", spark);
		at += spark + 2;
	}
	put_to(p, at);
	put_styled(p, PLAIN, "of a second, most time in");
	for (uint32_t i = 0; i < s->layers_len && !is_full(p); i++)
		if (s->layers[i].calls)
			draw_layer(p, &s->layers[i]);
}

/* "412 of 700 W", or what is known of it. */
static const char *of(char *ret, size_t size, double value, double most, const char *unit)
{
	if (!isfinite(value))
		snprintf(ret, size, "-");
	else if (isfinite(most) && most > 0)
		snprintf(ret, size, "%.0f of %.0f %s", value, most, unit);
	else
		snprintf(ret, size, "%.0f %s", value, unit);
	return ret;
}

/* Where the bar begins: names are cut on narrow terminals. */
static unsigned gpu_bar(const struct screen *p)
{
	return p->size->columns >= 90 ? 26 : 16;
}

static void draw_gpu(struct screen *p, unsigned index, const struct live_gpu *g)
{
	unsigned bar = gpu_bar(p);
	char text[64], used[HUMAN_BYTES], total[HUMAN_BYTES], name[128];
	begin_line(p);
	put(p, PLAIN, "%3u  ", index);
	text_fit(name, sizeof(name), g->name, bar - 6);
	put_styled(p, PLAIN, name);
	put_to(p, bar);
	if (isfinite(g->busy_ratio)) {
		put_bar(p, g->busy_ratio);
		put(p, PLAIN, " %3.0f %%", g->busy_ratio * 100);
	}
	snprintf(text, sizeof(text), "%s of %s",
		 isfinite(g->memory_used_bytes) ? human_bytes(used, (uint64_t)g->memory_used_bytes)
						: "-",
		 isfinite(g->memory_total_bytes)
			 ? human_bytes(total, (uint64_t)g->memory_total_bytes)
			 : "-");
	put_right(p, bar + 39, text);
	put_right(p, bar + 55, of(text, sizeof(text), g->power_w, g->power_limit_w, "W"));
	put_right(p, bar + 63,
		  of(text, sizeof(text), g->temperature_celsius, NAN, p->size->ascii ? "C" : "°C"));
}

static void draw_gpu_head(struct screen *p)
{
	unsigned bar = gpu_bar(p);
	begin_line(p);
	put_styled(p, BOLD, "gpu");
	put_to(p, bar);
	put_styled(p, PLAIN, "busy");
	put_right(p, bar + 39, "memory");
	put_right(p, bar + 55, "power");
	put_right(p, bar + 63, "temp");
}

static void draw_gap(struct screen *p)
{
	if (!is_full(p) && p->size->rows >= SPACIOUS_ROWS)
		begin_line(p);
}

static void draw_gpus(struct screen *p)
{
	bool any = false;
	for (unsigned i = 0; i < LIVE_GPUS && !is_full(p); i++) {
		if (!p->s->gpus[i].known)
			continue;
		if (!any)
			draw_gpu_head(p);
		any = true;
		if (!is_full(p))
			draw_gpu(p, i, &p->s->gpus[i]);
	}
	if (any)
		draw_gap(p);
}

/* What shares are of the time of (docs/telemetry.md), by the name of their counters. */
static const struct share_words {
	const char *name, *words;
	bool cpus; /* 1 is a CPU all the time: there may be more */
} SHARES[] = {
	{"cpu_ratio", "its CPUs were busy", false},
	{"cpu_steal_ratio", "its CPUs had work while other virtual machines ran on them", false},
	{"job_cpus_steal_ratio", "the job's CPUs had work while other virtual machines ran on them",
	 false},
	{"cpu_irq_ratio", "its CPUs were in interrupts", false},
	{"cpu_softirq_ratio", "its CPUs were in softirqs", false},
	{"cpu_iowait_ratio", "its CPUs were idle while a thread waited for a disk", false},
	{"cpu_pressure_ratio", "a thread waited for a CPU", false},
	{"memory_pressure_ratio", "a thread waited for memory", false},
	{"memory_full_pressure_ratio", "all threads waited for memory", false},
	{"io_pressure_ratio", "a thread waited for a disk", false},
	{"io_full_pressure_ratio", "all threads waited for a disk", false},
	{"busy_ratio", "it had requests", false},
	{"throttled_ratio", "were held back by a quota", true},
};

/* "100 %  host: a thread waited for a CPU"; "0.5 ratio  host some_ratio" where there are no words.
 */
static void put_share(struct screen *p, const struct live_counter *c)
{
	const char *name = strrchr(c->what, ' ');
	size_t entity = name ? (size_t)(name - c->what) : 0;
	for (size_t i = 0; name && i < sizeof(SHARES) / sizeof(*SHARES); i++) {
		if (strcmp(name + 1, SHARES[i].name))
			continue;
		if (SHARES[i].cpus)
			put(p, PLAIN, "%.2f CPUs  %.*s: %s", c->value, (int)entity, c->what,
			    SHARES[i].words);
		else
			put(p, PLAIN, "%3.0f %%  %.*s: %s", 100 * c->value, (int)entity, c->what,
			    SHARES[i].words);
		return;
	}
	put(p, PLAIN, "%.4g ratio  %s", c->value, c->what);
}

/* Shares alone may be too small to be worth a line. */
static void draw_counters(struct screen *p)
{
	uint32_t drawn = 0;
	for (uint32_t i = 0; i < p->s->counters_len && drawn < OTHERS_MOST && !is_full(p); i++) {
		const struct live_counter *c = &p->s->counters[i];
		const char *unit = metric_unit_text(c->unit);
		char bytes[HUMAN_BYTES];
		if (c->unit == UNIT_RATIO && c->value < SHARE_LEAST)
			continue;
		begin_line(p);
		put_label(p, drawn++ ? "" : "other");
		if (c->unit == UNIT_BYTES || c->unit == UNIT_BYTES_PER_S)
			put(p, PLAIN, "%s%s  %s", human_bytes(bytes, (uint64_t)fmax(c->value, 0)),
			    c->unit == UNIT_BYTES ? "" : "/s", c->what);
		else if (c->unit == UNIT_RATIO)
			put_share(p, c);
		else
			put(p, PLAIN, "%.4g%s%s  %s", c->value, unit ? " " : "", unit ? unit : "",
			    c->what);
	}
	if (drawn)
		draw_gap(p);
}

static void draw_cost(struct screen *p)
{
	const struct live_state *s = p->s;
	char rss[HUMAN_BYTES], count[HUMAN_BYTES];
	begin_line(p);
	put_label(p, "cost");
	const struct cost_seen seen = {.job_cpu_s = s->job_cpu, .running_cpu_s = s->probe_cpu};
	struct cost cost; /* of a second */
	cost_reckon(&cost, &seen);
	if (cost.ratio >= 0 && isfinite(s->probe_cpu))
		put(p, PLAIN, "%.1f %% of the job's CPU time (%.2f cores), ", 100 * cost.ratio,
		    s->job_cpu);
	put(p, PLAIN, "eacgm itself %.1f %% of a core, %s", 100 * s->own_cpu,
	    human_bytes(rss, (uint64_t)s->own_rss_bytes));
	if (is_full(p))
		return;
	begin_line(p);
	put_label(p, "lost");
	if (s->lost)
		put(p, WARN, "%s events", human_count(count, s->lost));
	else
		put_styled(p, PLAIN, "nothing");
	if (s->overruns)
		put(p, WARN, ", %s events not looked at", human_count(count, s->overruns));
	if (s->unjudged)
		put(p, WARN, ", %s windows not judged", human_count(count, s->unjudged));
}

/* ---- anomalies ---- */

static void draw_anomaly(struct screen *p, const struct live_anomaly *a)
{
	char text[64], lasted[HUMAN_BYTES];
	time_t at = (time_t)((a->start_ns + p->s->realtime_offset_ns) / 1000000000);
	struct tm local;
	uint64_t end_ns = a->ended ? a->end_ns : p->s->now_ns;
	begin_line(p);
	localtime_r(&at, &local);
	strftime(text, sizeof(text), "%H:%M:%S", &local);
	enum style style = a->ended ? PLAIN : ALARM;
	put_styled(p, style, text);
	put(p, style, "  %s %s", a->ended ? "lasted" : "lasts ",
	    human_ns(lasted, since(end_ns, a->start_ns) / 100000000 * 100000000));
	put_to(p, 27);
	put(p, PLAIN, "%s", a->layer);
	put_to(p, 36);
	put(p, PLAIN, "%s  ", a->entity);
	put_sentence(p, PLAIN, a->why);
}

/* Bytes of the words that so many columns have room for; of one at least. */
static size_t fitting(const char *text, size_t columns)
{
	size_t ret = strcspn(text, " "), next = ret;
	while (text[ret] && next <= columns) {
		ret = next;
		next = ret + (text[ret] == ' ');
		next += strcspn(text + next, " ");
	}
	return ret;
}

/* Words of ASCII in lines of the screen's width, those after the first further in. */
static void put_words(struct screen *p, const char *text, unsigned indent)
{
	while (*text && !is_full(p)) {
		size_t room = p->size->columns > p->column ? p->size->columns - p->column : 0;
		size_t n = fitting(text, room);
		put(p, PLAIN, "%.*s", (int)n, text);
		text += n + (text[n] == ' ');
		if (!*text || is_full(p))
			return;
		begin_line(p);
		put_to(p, indent);
	}
}

/* What to do, of the latest that lasts. */
static void draw_advice(struct screen *p)
{
	const struct live_cause *c = p->s->causes;
	while (c < p->s->causes + LIVE_CAUSES && c->id && c->ended)
		c++;
	if (c == p->s->causes + LIVE_CAUSES || !c->id || !c->advice || is_full(p))
		return;
	begin_line(p);
	put_label(p, "do");
	put_words(p, c->advice, NAME_COLUMNS + 1);
}

/* Why it is or was slow: the answer, so it stands first. */
static void draw_verdict(struct screen *p)
{
	const struct live_cause *causes = p->s->causes;
	for (size_t i = 0; i < LIVE_CAUSES && causes[i].id && !is_full(p); i++) {
		begin_line(p);
		put_label(p, i ? "" : "slow");
		put_styled(p, causes[i].ended ? PLAIN : ALARM, causes[i].ended ? "was: " : "now: ");
		put_sentence(p, PLAIN, causes[i].what);
	}
	draw_advice(p);
	if (causes[0].id)
		draw_gap(p);
}

static void draw_anomalies(struct screen *p)
{
	const struct live_state *s = p->s;
	char count[HUMAN_BYTES];
	if (!s->judges)
		return;
	begin_line(p);
	put_styled(p, BOLD, "anomalies  ");
	if (s->learning && isfinite(s->learn_left_s))
		put(p, DIM, "learning what is normal: %.0f s more", ceil(s->learn_left_s));
	else if (s->learning)
		put_styled(p, DIM, "learning what is normal");
	else if (!s->anomalies)
		put_styled(p, PLAIN, "none");
	else if (s->lasting)
		put(p, PLAIN, "%s, %llu of them last%s", human_count(count, s->anomalies),
		    (unsigned long long)s->lasting, s->lasting == 1 ? "s" : "");
	else
		put(p, PLAIN, "%s", human_count(count, s->anomalies));
	uint64_t oldest = s->latest_next > LIVE_ANOMALIES ? s->latest_next - LIVE_ANOMALIES : 0;
	for (uint64_t n = s->latest_next; n > oldest && !is_full(p); n--)
		draw_anomaly(p, &s->latest[(n - 1) % LIVE_ANOMALIES]);
}

/* One letter for each character that a terminal without UTF-8 does not know. */
static void only_ascii(struct buf *b, size_t from)
{
	size_t to = from;
	for (size_t i = from; i < b->len; i++) {
		uint8_t c = b->data[i];
		uint8_t next = i + 1 < b->len ? b->data[i + 1] : 0;
		if (c < 0x80)
			b->data[to++] = c;
		else if (c >= 0xc0) /* begins a character: the ellipsis, micro, or something else */
			b->data[to++] = c == 0xe2 && next == 0x80   ? '~'
					: c == 0xc2 && next == 0xb5 ? 'u'
								    : '?';
	}
	b->len = to;
}

void watch_render(struct buf *out, const struct live_state *s, const struct watch_size *size)
{
	size_t from = out->len;
	struct screen p = {.out = out, .s = s, .size = size};
	void (*const parts[])(struct screen *) = {
		draw_head,   draw_gap, draw_verdict, draw_steps,    draw_phases, draw_gap,
		draw_layers, draw_gap, draw_gpus,    draw_counters, draw_cost,	 draw_gap};
	p.most = s->judges && size->rows > 2 * KEPT_ROWS ? size->rows - KEPT_ROWS : size->rows;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (!is_full(&p))
			parts[i](&p);
	p.most = size->rows;
	if (!is_full(&p))
		draw_anomalies(&p);
	if (*s->said && !is_full(&p)) {
		begin_line(&p);
		put_styled(&p, WARN, s->said);
	}
	if (size->ascii)
		only_ascii(out, from);
}

void watch_render_line(struct buf *out, const struct live_state *s)
{
	char text[HUMAN_BYTES];
	buf_printf(out, "%s", clock_of(text, since(s->now_ns, s->start_ns)));
	for (uint32_t i = 0; i < s->layers_len; i++)
		if (s->layers[i].calls)
			buf_printf(out, "  %s %s/s", s->layers[i].name,
				   human_count(text, (uint64_t)(s->layers[i].calls_per_s + 0.5)));
	if (s->steps.history.len)
		buf_printf(out, "  step %s", human_ns(text, s->steps.last_ns));
	for (unsigned i = 0; i < LIVE_GPUS; i++)
		if (s->gpus[i].known && isfinite(s->gpus[i].busy_ratio))
			buf_printf(out, "  gpu %u %.0f %%", i, s->gpus[i].busy_ratio * 100);
	buf_printf(out, "  lost %s", human_count(text, s->lost));
	if (s->judges)
		buf_printf(out, "  anomalies %s%s", human_count(text, s->anomalies),
			   s->learning ? " (learning)" : "");
}
