/* peer_note_fuzz.c - what a hostile peer may say: a note of a freeze, or an answer to one. Whatever
 * comes, a note that is taken is within its bounds, and is the same when it is written and read
 * again.
 *
 * links: serve base */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "serve/peer_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
	if (!holds)
		abort();
}

static void check_text(const char *text, size_t size)
{
	size_t len = strnlen(text, size);
	check(len && len < size && utf8_valid(text, len));
	for (size_t i = 0; i < len; i++)
		check(!utf8_control((const uint8_t *)text + i, len - i));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct peer_note note, again;
	struct buf text = {0};
	struct err e = {""};
	(void)peer_answer_freezes(data, size);
	if (peer_note_read(&note, (const char *)data, size, &e)) {
		check(e.msg[0] != 0);
		return 0;
	}
	check(note.id && note.ncomms && note.ncomms <= PEER_NOTE_COMMS);
	check_text(note.host, sizeof(note.host));
	check_text(note.why, sizeof(note.why));
	check(peer_note_moment(&note, 1000, 2000) <= 1000);
	peer_note_write(&text, &note);
	check(!peer_note_read(&again, (const char *)text.data, text.len, &e));
	check(again.id == note.id && again.age_ns == note.age_ns &&
	      again.realtime_ns == note.realtime_ns && again.ncomms == note.ncomms &&
	      !memcmp(again.comms, note.comms, note.ncomms * sizeof(note.comms[0])) &&
	      !strcmp(again.host, note.host) && !strcmp(again.why, note.why));
	buf_free(&text);
	return 0;
}
