/* pyroscope.c - labels are a part of the name there, in a syntax of their own. */
#include "serve/pyroscope.h"

#include <ctype.h>
#include <string.h>

#include "base/buffer.h"

/* A value of a label: what its syntax would take for its own is "_". */
static void put_value(struct buf *b, const char *text)
{
	for (const char *s = text; *s; s++)
		buf_byte(b, isalnum((unsigned char)*s) || strchr("._-/", *s) ? (uint8_t)*s : '_');
}

static void put_label(struct buf *b, const char *name, const char *text)
{
	if (!text[0])
		return;
	buf_printf(b, "%%2C%s%%3D", name);
	put_value(b, text);
}

char *pyroscope_query(const struct live_process *of, const char *host, uint32_t sample_hz,
		      uint64_t from_s, uint64_t until_s)
{
	struct buf b = {0};
	buf_printf(&b, "?name=");
	put_value(&b, of->script[0] ? of->script : of->comm);
	buf_printf(&b, "%%7Bpid%%3D%u", of->pid);
	put_label(&b, "host", host);
	if (of->rank >= 0)
		buf_printf(&b, "%%2Crank%%3D%d", of->rank);
	put_label(&b, "job", of->labels.job);
	put_label(&b, "namespace", of->labels.pod_namespace);
	put_label(&b, "pod", of->labels.pod);
	for (size_t i = 0; of->labels.chosen && i < of->labels.chosen->len; i++)
		if (proc_labels_value(&of->labels, i))
			put_label(&b, of->labels.chosen->list[i].name,
				  proc_labels_value(&of->labels, i));
	buf_printf(&b,
		   "%%7D&format=pprof&spyName=eacgm&sampleRate=%u&from=%llu&until=%llu&"
		   "units=nanoseconds",
		   sample_hz, (unsigned long long)from_s, (unsigned long long)until_s);
	buf_byte(&b, 0);
	return (char *)b.data;
}
