/* peer_note.c - numbers of 64 bits are hexadecimal text, since JSON's are doubles elsewhere. */
#include "serve/peer_note.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "serve/clean_json.h"

#define ID	  "%016" PRIx64
#define ID_DIGITS 16
#define TIME_MOST (INT64_MAX / 2)

/* ---- writing ---- */

static int add_text(const char *text, size_t size, void *ret)
{
	buf_add(ret, text, size);
	return 0;
}

static void dump(struct buf *ret, json_t *j)
{
	json_dump_callback(j, add_text, ret, JSON_COMPACT);
	buf_byte(ret, '\n');
	json_decref(j);
}

static json_t *id_json(uint64_t id)
{
	char text[ID_DIGITS + 1];
	snprintf(text, sizeof(text), ID, id);
	return json_string(text);
}

void peer_note_write(struct buf *ret, const struct peer_note *n)
{
	json_t *comms = json_array();
	for (size_t i = 0; i < n->ncomms; i++)
		json_array_append_new(comms, id_json(n->comms[i]));
	dump(ret, json_pack("{s:o, s:o, s:o, s:I, s:I, s:o}", "id", id_json(n->id), "host",
			    clean_json(n->host), "why", clean_json(n->why), "time_realtime_ns",
			    (json_int_t)n->realtime_ns, "age_ns", (json_int_t)n->age_ns,
			    "communicators", comms));
}

void peer_answer_write(struct buf *ret, uint64_t id, bool freezes, const char *why)
{
	dump(ret, json_pack("{s:o, s:b, s:o}", "id", id_json(id), "freezes", freezes, "why",
			    clean_json(why)));
}

/* ---- reading ---- */

/* Sixteen digits, not all of them 0. */
static bool read_id(uint64_t *ret, const json_t *from)
{
	const char *text = json_string_value(from);
	if (!text || json_string_length(from) != ID_DIGITS ||
	    strspn(text, "0123456789abcdef") != ID_DIGITS)
		return false;
	*ret = strtoull(text, NULL, 16);
	return *ret != 0;
}

static bool read_time(uint64_t *ret, const json_t *from)
{
	json_int_t value = json_integer_value(from);
	*ret = (uint64_t)value;
	return json_is_integer(from) && value >= 0 && value < TIME_MOST;
}

/* Cut where it does not fit. */
static bool read_text(char *ret, size_t size, const json_t *from)
{
	struct buf clean = {0};
	if (!json_is_string(from) || !json_string_length(from))
		return false;
	utf8_append_clean(&clean, json_string_value(from), json_string_length(from), '?');
	size_t len = clean.len < size ? clean.len : size - 1;
	while (len < clean.len && len && (clean.data[len] & 0xc0) == 0x80)
		len--; /* a character is whole or not there */
	memcpy(ret, clean.data, len);
	ret[len] = 0;
	buf_free(&clean);
	return true;
}

static bool read_comms(struct peer_note *ret, const json_t *from)
{
	ret->ncomms = json_array_size(from);
	if (!ret->ncomms || ret->ncomms > PEER_NOTE_COMMS)
		return false;
	for (size_t i = 0; i < ret->ncomms; i++)
		if (!read_id(&ret->comms[i], json_array_get(from, i)))
			return false;
	return true;
}

static json_t *load(const void *text, size_t len)
{
	return len <= PEER_NOTE_BYTES ? json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL) : NULL;
}

int peer_note_read(struct peer_note *ret, const char *text, size_t len, struct err *e)
{
	json_t *j = load(text, len);
	const char *bad =
		!json_is_object(j)			       ? "JSON of an object"
		: !read_id(&ret->id, json_object_get(j, "id")) ? "id"
		: !read_text(ret->host, sizeof(ret->host), json_object_get(j, "host")) ? "host"
		: !read_text(ret->why, sizeof(ret->why), json_object_get(j, "why"))    ? "why"
		: !read_time(&ret->realtime_ns, json_object_get(j, "time_realtime_ns"))
			? "time_realtime_ns"
		: !read_time(&ret->age_ns, json_object_get(j, "age_ns")) ||
				ret->age_ns > PEER_LATE_NS
			? "age_ns"
		: !read_comms(ret, json_object_get(j, "communicators")) ? "communicators"
									: NULL;
	json_decref(j);
	return bad ? err_set(e, EINVAL, "no note of a freeze: %s is missing or wrong", bad) : 0;
}

uint64_t peer_note_moment(const struct peer_note *n, uint64_t monotonic_ns, uint64_t realtime_ns)
{
	uint64_t ago_ns = realtime_ns - n->realtime_ns; /* huge where that is to come */
	if (ago_ns < n->age_ns || ago_ns - n->age_ns > PEER_LATE_NS)
		ago_ns = n->age_ns;
	return ago_ns < monotonic_ns ? monotonic_ns - ago_ns : 1;
}

bool peer_answer_freezes(const void *text, size_t len)
{
	json_t *j = load(text, len);
	bool ret = json_is_true(json_object_get(j, "freezes"));
	json_decref(j);
	return ret;
}
