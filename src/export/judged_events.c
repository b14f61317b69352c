/* judged_events.c - writes the file of detect --events. What an event came to is the detector's. */
#include "export/judged_events.h"

#include <csv.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/utf8.h"

/* ---- CSV ---- */

/* A cell: empty where it is not known. */
static void put_real(FILE *out, double v)
{
	if (isnan(v))
		fputs(",", out);
	else
		fprintf(out, ",%.6g", v);
}

static void put_line(FILE *out, const struct detector_event *e)
{
	fprintf(out, "%" PRIu64 ",%" PRIu64 ",%u,%u,%s,", e->start_ns, e->dur_ns, e->pid, e->tid,
		e->layer_name);
	struct buf key = {0};
	utf8_append_clean(&key, e->key, strlen(e->key), '?');
	csv_fwrite(out, key.data, key.len);
	buf_free(&key);
	put_real(out, e->z);
	put_real(out, e->gap_z);
	put_real(out, e->more_ns);
	fprintf(out, ",%d\n", e->anomalous);
}

/* ---- NPY ---- */

/* An event as it lies in the file; EVENT_TYPE says the same to numpy. */
struct npy_event {
	uint64_t start_ns, dur_ns;
	uint32_t pid, tid, key;
	float z, gap_z, more_ns;
	uint8_t layer, anomalous;
	uint8_t pad[6];
};
_Static_assert(sizeof(struct npy_event) == 48, "records are packed");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are little-endian");
#define EVENT_TYPE                                                                                 \
	"[('start_ns', '<u8'), ('dur_ns', '<u8'), ('pid', '<u4'), ('tid', '<u4'), "                \
	"('key', '<u4'), ('z', '<f4'), ('gap_z', '<f4'), ('more_ns', '<f4'), "                     \
	"('layer', 'u1'), ('anomalous', 'u1'), ('', 'V6')]"

#define NPY_START_BYTES	 10  /* magic, version, length of the text */
#define NPY_HEADER_BYTES 320 /* with these, and always: a multiple of 64 */

static void put_header(FILE *out, const char *type, uint64_t rows)
{
	uint8_t header[NPY_HEADER_BYTES + 1] = "\x93NUMPY\x01";
	const size_t text = NPY_HEADER_BYTES - NPY_START_BYTES;
	header[8] = text & 0xff;
	header[9] = text >> 8;
	int len = snprintf((char *)header + NPY_START_BYTES, text,
			   "{'descr': %s, 'fortran_order': False, 'shape': (%" PRIu64 ",), }", type,
			   rows);
	memset(header + NPY_START_BYTES + len, ' ', text - (size_t)len);
	header[NPY_HEADER_BYTES - 1] = '\n';
	fwrite(header, 1, NPY_HEADER_BYTES, out);
}

static void put_record(struct judged_events *o, const struct detector_event *e)
{
	struct npy_event record = {.start_ns = e->start_ns,
				   .dur_ns = e->dur_ns,
				   .pid = e->pid,
				   .tid = e->tid,
				   .key = e->key_number,
				   .z = (float)e->z,
				   .gap_z = (float)e->gap_z,
				   .more_ns = (float)e->more_ns,
				   .layer = (uint8_t)e->layer,
				   .anomalous = e->anomalous};
	while (o->keys.len <= e->key_number)
		vec_push(&o->keys);
	if (!o->keys.data[e->key_number])
		o->keys.data[e->key_number] = xstrdup(e->key);
	fwrite_unlocked(&record, sizeof(record), 1, o->out);
}

/* The texts, and how many events there were. */
static int finish(struct judged_events *o)
{
	FILE *out = o->out;
	size_t longest = 1;
	char type[32];
	for (size_t i = 0; i < o->keys.len; i++) {
		size_t len = o->keys.data[i] ? strlen(o->keys.data[i]) : 0;
		longest = len > longest ? len : longest;
	}
	snprintf(type, sizeof(type), "'|S%zu'", longest);
	put_header(out, type, o->keys.len);
	char *cell = xcalloc(longest + 1, 1);
	for (size_t i = 0; i < o->keys.len; i++) {
		const char *text = o->keys.data[i] ? o->keys.data[i] : "";
		strncpy(cell, text, longest);
		fwrite(cell, 1, longest, out);
	}
	free(cell);
	if (fseek(out, 0, SEEK_SET))
		return -1;
	put_header(out, EVENT_TYPE, o->written);
	return 0;
}

/* ---- both ---- */

bool judged_events_is_npy(const char *path)
{
	size_t len = strlen(path);
	return len >= 4 && !strcmp(path + len - 4, ".npy");
}

void judged_events_begin(struct judged_events *o, FILE *out, bool npy)
{
	*o = (struct judged_events){.out = out, .npy = npy};
	if (npy)
		put_header(out, EVENT_TYPE, 0);
	else
		fputs("start_ns,dur_ns,pid,tid,layer,key,z,gap_z,more_ns,anomalous\n", out);
}

void judged_events_put(struct judged_events *o, const struct detector_event *event)
{
	o->written++;
	if (o->npy)
		put_record(o, event);
	else
		put_line(o->out, event);
}

int judged_events_end(struct judged_events *o)
{
	int rc = o->npy ? finish(o) : 0;
	for (size_t i = 0; i < o->keys.len; i++)
		free(o->keys.data[i]);
	vec_free(&o->keys);
	return rc;
}
