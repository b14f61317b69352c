/* report_account_gpu.c - the GPUs in the account: busy, idle, and what the host did while they were
 * idle. */
#include "base/human.h"
#include "report/report_account.h"

#define DEVICES_SHOWN 8
#define OWNERS_TOLD   3
#define OWNER_LEAST   100 /* one part in so many of the time */
#define BUSY_PERCENT  80
#define WAITED_LEAST  10 /* one part in so many of the time */
#define IDLE_LEAST    5	 /* likewise, to stand out */

static uint64_t host_ns(const struct account_device *d)
{
	uint64_t sum = 0;
	for (int i = 0; i < ACCOUNT_OWNERS; i++)
		sum += d->host_ns[i];
	return sum;
}

/* "running PyTorch's operators 45 %, running Python code 12 %" */
static void say_host(struct buf *to, const struct account_device *d)
{
	bool told[ACCOUNT_OWNERS] = {0};
	for (int n = 0; n < OWNERS_TOLD; n++) {
		int most = -1;
		for (int i = 0; i < ACCOUNT_OWNERS; i++)
			if (!told[i] && (most < 0 || d->host_ns[i] > d->host_ns[most]))
				most = i;
		if (!d->host_ns[most] || d->host_ns[most] * OWNER_LEAST < d->span_ns)
			return;
		told[most] = true;
		buf_printf(to, "%s %s %.0f %%", n ? "," : "",
			   account_owner_words((enum account_owner)most),
			   account_percent(d->host_ns[most], d->span_ns));
	}
}

/* "the loop", "the 9.29 s from its first work to its last" */
static void say_span(struct buf *to, const struct account_device *d)
{
	char span[HUMAN_BYTES];
	if (d->in_window)
		buf_printf(to, "the loop");
	else
		buf_printf(to, "the %s from its first work to its last",
			   human_ns(span, d->span_ns));
}

/* Of the main process's GPUs, else of all, the one that was idle longest. */
static const struct account_device *most_idle(const struct account_state *s)
{
	const struct account_thread *th = account_main(&s->account);
	const struct account_device *most = NULL;
	for (size_t i = 0; i < s->devices.list.len; i++) {
		const struct account_device *d = &s->devices.list.data[i];
		bool own = d->pid == th->pid, most_own = most && most->pid == th->pid;
		if (!most || own > most_own || (own == most_own && d->idle_ns > most->idle_ns))
			most = d;
	}
	return most;
}

static bool stands_out(const struct account_device *d)
{
	return d && d->idle_ns && d->idle_ns * IDLE_LEAST >= d->span_ns;
}

/* in_full: what stands out does not say it. */
static void device_line(const struct page *p, const struct account_device *d, bool in_full)
{
	struct buf line = {0};
	uint64_t waited_ns = host_ns(d);
	buf_printf(&line, "  GPU %d of process %u in ", d->device, d->pid);
	say_span(&line, d);
	buf_printf(&line, ": busy %.0f %%, idle %.0f %%", account_percent(d->busy_ns, d->span_ns),
		   account_percent(d->idle_ns, d->span_ns));
	if (in_full && waited_ns * WAITED_LEAST >= d->span_ns && waited_ns) {
		buf_printf(&line, "; it waited for the host %.0f %%, which was",
			   account_percent(waited_ns, d->span_ns));
		say_host(&line, d);
	}
	buf_byte(&line, 0);
	page_wrapped(p, 0, 4, "%s", (char *)line.data);
	buf_free(&line);
}

void account_gpu_lines(const struct page *p, const struct account_state *s)
{
	const struct account_device *told = most_idle(s);
	size_t n = s->devices.list.len;
	for (size_t i = 0; i < n && i < DEVICES_SHOWN; i++)
		device_line(p, &s->devices.list.data[i],
			    &s->devices.list.data[i] != told || !stands_out(told));
	if (n > DEVICES_SHOWN)
		fprintf(p->out, "  ... and %zu more GPUs\n", n - DEVICES_SHOWN);
}

/* Of the main process: what its loop waits for. */
uint64_t account_gpu_busy_finding(const struct account_state *s, struct account_finding *ret)
{
	const struct account_device *most = NULL;
	const struct account_thread *th = account_main(&s->account);
	struct buf text = {0};
	for (size_t i = 0; i < s->devices.list.len; i++) {
		const struct account_device *d = &s->devices.list.data[i];
		if (d->pid == th->pid && (!most || d->work_ns > most->work_ns))
			most = d;
	}
	if (!most || most->work_ns * 100 < most->span_ns * BUSY_PERCENT)
		return 0;
	buf_printf(&text, "GPU %d of process %u worked for %.0f %% of ", most->device, most->pid,
		   account_percent(most->work_ns, most->span_ns));
	say_span(&text, most);
	buf_printf(&text, ": the kernels below take the time.");
	account_finding_put(ret, &text);
	ret->leads = s->account.has_loop;
	return most->work_ns;
}

uint64_t account_gpu_finding(const struct account_state *s, struct account_finding *ret)
{
	const struct account_device *most = most_idle(s);
	struct buf text = {0};
	if (!stands_out(most))
		return 0;
	buf_printf(&text, "GPU %d of process %u was idle for %.0f %% of ", most->device, most->pid,
		   account_percent(most->idle_ns, most->span_ns));
	say_span(&text, most);
	if (host_ns(most) * 2 >= most->idle_ns) {
		buf_printf(&text, ": it waited for the host to launch work, which meanwhile was");
		say_host(&text, most);
	} else if (most->own_ns * 2 >= most->idle_ns) {
		buf_printf(&text, ", with work that had been launched: it waited for other work, "
				  "or began the next");
	}
	buf_printf(&text, ".");
	account_finding_put(ret, &text);
	ret->leads = s->account.has_loop && most->pid == account_main(&s->account)->pid;
	return most->idle_ns;
}

json_t *account_gpus_json(const struct account_state *s)
{
	json_t *list = json_array();
	for (size_t i = 0; i < s->devices.list.len; i++) {
		const struct account_device *d = &s->devices.list.data[i];
		json_array_append_new(list, json_pack("{s:i,s:i,s:b,s:o,s:o,s:o,s:o,s:o,s:o,s:o}",
						      "pid", (int)d->pid, "device", d->device,
						      "in_loop", d->in_window, "span_ns",
						      report_number_json(d->span_ns), "busy_ns",
						      report_number_json(d->busy_ns), "work_ns",
						      report_number_json(d->work_ns), "idle_ns",
						      report_number_json(d->idle_ns), "own_ns",
						      report_number_json(d->own_ns), "unknown_ns",
						      report_number_json(d->unknown_ns), "host_ns",
						      account_owners_json(d->host_ns)));
	}
	return list;
}
