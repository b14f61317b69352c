/* list_spans.c - prints the GPU spans of a recording, for tests: lines as cupti_job's; and when the
 * probes were on, in bursts.
 *
 * usage: list_spans FILE */
#include <inttypes.h>
#include <stdio.h>

#include "recording/recording.h"

static void print_span(const struct rec_tables *t, const struct m_gpu_span *s)
{
	static const char *const works[] = {"kernel", "copy", "set", "sync", "graph"};
	const char *name = strtab_get(&t->strings, s->name, NULL);
	printf("span %u %s %d %u %u %u %llu %u %llu %llu %llu %s\n", s->pid, works[s->work],
	       s->device, s->context, s->stream, s->correlation, (unsigned long long)s->bytes,
	       s->copy_kind, (unsigned long long)s->graph_node, (unsigned long long)s->start_ns,
	       (unsigned long long)s->end_ns, name[0] ? name : "-");
	uint64_t returned_ns = s->called_ns + s->called_dur_ns;
	if (s->called_ns)
		printf("called %u %u %u %" PRIu64 " %" PRIu64 "\n", s->pid, s->correlation,
		       s->called_tid, s->called_ns, returned_ns);
}

int main(int argc, char **argv)
{
	struct rec_reader *r;
	struct m_gpu_spans spans = {0};
	struct err e = {0};
	if (argc != 2 || rec_open(&r, argv[1], &e)) {
		fprintf(stderr, "list_spans: %s\n", argc != 2 ? "usage: list_spans FILE" : e.msg);
		return 1;
	}
	for (size_t b = 0; b < rec_gpu_span_blocks(r); b++) {
		if (rec_read_gpu_spans(r, b, &spans, &e)) {
			fprintf(stderr, "list_spans: %s\n", e.msg);
			return 1;
		}
		for (size_t i = 0; i < spans.len; i++)
			print_span(rec_tables(r), &spans.rows[i]);
	}
	for (size_t i = 0; i < rec_tables(r)->windows.len; i++) {
		const struct m_window *w = &rec_tables(r)->windows.data[i];
		printf("window %" PRIu64 " %" PRIu64 "\n", w->start_ns, w->end_ns);
	}
	m_gpu_spans_free(&spans);
	rec_close(r);
	return 0;
}
