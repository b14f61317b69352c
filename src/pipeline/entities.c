/* entities.c - what counters are of, as strings of the recording: "pid 12", "gpu 0". Where nothing
 * is kept those of processes are no strings, which stay, but names with numbers from NAME_FIRST on:
 * told when they are new, and told to be gone when no counter has been of them for IDLE_NS by the
 * counters' own times. Numbers of names are not used again: there are enough for 50 new processes a
 * second for a year, and then the first come again. */
#include <string.h>

#include "pipeline/pipeline_impl.h"

#define IDLE_NS	 60000000000ULL
#define EVERY_NS 10000000000ULL

struct entity {
	char *text;
	uint32_t number;
	uint64_t used_ns;
};

struct entities {
	VEC(struct entity) list;
	struct map64 of_text; /* hash -> index */
	uint32_t named;	      /* so far */
	uint64_t looked_ns;
};

struct entities *entities_new(void)
{
	return xcalloc(1, sizeof(struct entities));
}

void entities_free(struct entities *en)
{
	for (size_t i = 0; i < en->list.len; i++)
		free(en->list.data[i].text);
	vec_free(&en->list);
	map64_free(&en->of_text);
	free(en);
}

static uint64_t hash_of(const char *text)
{
	return hash_bytes(text, strlen(text));
}

static void drop(struct pipeline *p, size_t i)
{
	struct entities *en = p->entities;
	struct entity *gone = &en->list.data[i];
	emit_name_gone(p, gone->number);
	map64_del(&en->of_text, hash_of(gone->text));
	free(gone->text);
	*gone = en->list.data[--en->list.len];
	if (i < en->list.len)
		map64_set(&en->of_text, hash_of(gone->text), i);
}

static void drop_idle(struct pipeline *p, uint64_t now_ns)
{
	struct entities *en = p->entities;
	if (now_ns < en->looked_ns + EVERY_NS)
		return;
	en->looked_ns = now_ns;
	for (size_t i = en->list.len; i-- > 0;)
		if (en->list.data[i].used_ns + IDLE_NS < now_ns)
			drop(p, i);
}

static struct entity *add(struct pipeline *p, const char *text)
{
	struct entities *en = p->entities;
	map64_set(&en->of_text, hash_of(text), en->list.len);
	struct entity *ret = vec_push(&en->list);
	*ret = (struct entity){.text = xstrdup(text),
			       .number = NAME_FIRST + en->named++ % (UINT32_MAX - NAME_FIRST)};
	emit_name(p, ret->number, text);
	return ret;
}

uint32_t pipeline_entity(struct pipeline *p, const char *text, uint64_t time_ns)
{
	struct entities *en = p->entities;
	uint64_t i;
	if (!p->forgets || !strstr(text, "pid "))
		return rec_string_z(p->writer, text);
	drop_idle(p, time_ns);
	bool known = map64_get(&en->of_text, hash_of(text), &i);
	if (known && strcmp(en->list.data[i].text, text) != 0) {
		drop(p, i); /* another text of the same hash */
		known = false;
	}
	struct entity *e = known ? &en->list.data[i] : add(p, text);
	e->used_ns = time_ns > e->used_ns ? time_ns : e->used_ns;
	return e->number;
}
