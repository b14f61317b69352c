/* comms.c - communicators of NCCL: which ones a process has, their rank, size and identity.
 *
 * A communicator that is made while we trace is known from the call that made it. One that
 * was there before, or that came of a split, is read from the process when it is first
 * used; symbolize/nccl_layout.h finds where rank and size are in its object.
 *
 * Identity, the same on all ranks, is NCCL's own (wire/nccl_hash.h): of a made one the hash of
 * its unique id, the "commId" of NCCL's log; of a split one the hash of the parent's, of the
 * number of the split and of the color (commAlloc in NCCL's src/init.cc). One that was there
 * before has none. */
#include <string.h>

#include "pipeline/pipeline_impl.h"
#include "symbolize/nccl_layout.h"
#include "wire/nccl_hash.h"

struct comm {
	struct m_comm row;
	uint64_t key;
	uint64_t asked;	   /* number of the question that it answered last */
	uint64_t begin_ns; /* calls from here on may mean it */
	size_t previous;   /* that had the handle before it: index in list + 1, 0 = none */
	bool tried;	   /* it was asked, whether or not it could be read */
	bool object_read;  /* its library was known by then */
	uint32_t splits;
};

struct comms {
	VEC(struct comm) list;
	struct map64 by_handle; /* process and handle -> index in list of the newest */
	uint64_t questions;
	struct nccl_layout layout;
	bool layout_tried;
};

struct comms *comms_new(void)
{
	return xcalloc(1, sizeof(struct comms));
}

void comms_free(struct comms *c)
{
	vec_free(&c->list);
	map64_free(&c->by_handle);
	free(c);
}

/* Of a handle, they are in the order in which they were added. */
static void link_comm(struct comms *all, size_t index)
{
	struct comm *c = &all->list.data[index];
	uint64_t newest;
	c->previous = map64_get(&all->by_handle, c->key, &newest) ? (size_t)newest + 1 : 0;
	map64_set(&all->by_handle, c->key, index);
}

void comms_forget(struct comms *c, size_t most)
{
	size_t kept = 0;
	if (c->list.len <= most)
		return;
	uint64_t *asked = xcalloc(c->list.len, sizeof(*asked));
	for (size_t i = 0; i < c->list.len; i++)
		asked[i] = c->list.data[i].asked;
	uint64_t since = forget_since(asked, c->list.len, most / 2);
	free(asked);
	for (size_t i = 0; i < c->list.len; i++)
		if (c->list.data[i].asked >= since)
			c->list.data[kept++] = c->list.data[i];
	c->list.len = kept;
	map64_free(&c->by_handle);
	for (size_t i = 0; i < kept; i++)
		link_comm(c, i);
}

static uint64_t key_of(struct pipeline *p, uint32_t tgid, uint64_t handle)
{
	return hash_u64(pipeline_process_key(p, tgid) ^ hash_u64(handle));
}

/* The one that a handle meant at a time. Of a pass all makings and destructions are taken
 * note of before the uses between them, and a new communicator often lies where an old one
 * was. */
static struct comm *find(struct pipeline *p, uint32_t tgid, uint64_t handle, uint64_t time_ns)
{
	uint64_t newest;
	if (!map64_get(&p->comms->by_handle, key_of(p, tgid, handle), &newest))
		return NULL;
	for (size_t i = (size_t)newest + 1; i; i = p->comms->list.data[i - 1].previous) {
		struct comm *c = &p->comms->list.data[i - 1];
		if (time_ns < c->begin_ns)
			continue;
		c->asked = ++p->comms->questions;
		return c->row.end_ns && time_ns > c->row.end_ns ? NULL : c;
	}
	return NULL;
}

static struct comm *add(struct pipeline *p, uint32_t tgid, uint64_t handle, uint64_t begin_ns,
			uint64_t time_ns)
{
	struct comm *c = vec_push(&p->comms->list);
	c->key = key_of(p, tgid, handle);
	c->asked = ++p->comms->questions;
	c->begin_ns = begin_ns;
	c->row = (struct m_comm){
		.pid = tgid, .handle = handle, .rank = -1, .device = -1, .start_ns = time_ns};
	link_comm(p->comms, p->comms->list.len - 1);
	return c;
}

/* One that is only known by its uses: it may be older than the first that is read here. */
static struct comm *add_used(struct pipeline *p, uint32_t tgid, uint64_t handle, uint64_t time_ns)
{
	uint64_t newest, begin_ns = 0;
	if (map64_get(&p->comms->by_handle, key_of(p, tgid, handle), &newest))
		begin_ns = p->comms->list.data[newest].row.end_ns + 1;
	return add(p, tgid, handle, begin_ns, time_ns);
}

static const struct nccl_layout *layout_of(struct pipeline *p, uint32_t tgid)
{
	struct comms *all = p->comms;
	if (!all->layout_tried) {
		const struct proc_map *m = pipeline_map_named(p, tgid, "libnccl");
		const struct open_elf *f = m ? pipeline_elf(p, tgid, m) : NULL;
		if (f) {
			all->layout_tried = true;
			all->layout = f->facts.nccl;
		}
	}
	return &all->layout;
}

static bool read_int(uint32_t tgid, uint64_t handle, uint32_t offset, int32_t most, int32_t *ret)
{
	int32_t v = -1;
	if (!offset || !pipeline_read_memory(tgid, handle + offset, &v, sizeof(v)) || v < 0 ||
	    v > most)
		return false;
	*ret = v;
	return true;
}

/* What the object itself says, where the calls did not. The first calls of a process can come
 * before what it has mapped: then it is asked once more. */
static void read_object(struct pipeline *p, struct comm *c)
{
	c->tried = true;
	if (c->row.end_ns)
		return; /* something else may lie there */
	const struct nccl_layout *l = layout_of(p, c->row.pid);
	c->object_read = p->comms->layout_tried;
	int32_t rank, size;
	if (!c->row.size && read_int(c->row.pid, c->row.handle, l->size, 1 << 20, &size) &&
	    read_int(c->row.pid, c->row.handle, l->rank, 1 << 20, &rank) && rank < size) {
		c->row.rank = rank;
		c->row.size = size;
	}
	read_int(c->row.pid, c->row.handle, l->device, 1023, &c->row.device);
}

static void put(struct pipeline *p, const struct comm *c)
{
	emit_comm(p, &c->row);
	watch_comm(p, &c->row);
}

void comms_init(struct pipeline *p, uint32_t tgid, const struct comm_init *init, uint64_t time_ns)
{
	struct comm *c = add(p, tgid, init->handle, time_ns, time_ns);
	c->row.hash = init->hash;
	c->row.rank = init->rank;
	c->row.size = init->size;
	put(p, c);
}

static uint64_t child_hash(uint64_t parent, uint32_t number, int32_t color)
{
	struct nccl_hash h = NCCL_HASH_INIT;
	nccl_hash_size(&h, sizeof(parent));
	nccl_hash_word(&h, parent);
	nccl_hash_size(&h, sizeof(number));
	nccl_hash_word(&h, number);
	nccl_hash_size(&h, sizeof(color));
	nccl_hash_word(&h, (uint32_t)color);
	return nccl_hash_end(&h);
}

void comms_split(struct pipeline *p, uint32_t tgid, uint64_t parent, int32_t color, uint64_t handle,
		 uint64_t time_ns)
{
	struct comm *from = find(p, tgid, parent, time_ns);
	uint64_t hash = 0;
	if (from) {
		from->splits++;
		if (from->row.hash)
			hash = child_hash(from->row.hash, from->splits, color);
	}
	if (!handle || color < 0)
		return; /* NCCL_SPLIT_NOCOLOR: took part, got none */
	struct comm *c = add(p, tgid, handle, time_ns, time_ns);
	c->row.hash = hash;
	c->row.parent = parent;
	put(p, c);
}

const struct m_comm *comms_use(struct pipeline *p, uint32_t tgid, uint64_t handle, uint64_t time_ns)
{
	struct comm *c = find(p, tgid, handle, time_ns);
	if (c && c->tried)
		return &c->row;
	if (!c)
		c = add_used(p, tgid, handle, time_ns);
	read_object(p, c);
	put(p, c);
	return &c->row;
}

void comms_take_maps(struct pipeline *p, uint32_t tgid)
{
	for (size_t i = 0; i < p->comms->list.len; i++) {
		struct comm *c = &p->comms->list.data[i];
		if (c->row.pid != tgid || !c->tried || c->object_read || c->row.end_ns)
			continue;
		read_object(p, c);
		if (c->object_read)
			put(p, c);
	}
}

void comms_destroy(struct pipeline *p, uint32_t tgid, uint64_t handle, uint64_t time_ns)
{
	struct comm *c = find(p, tgid, handle, time_ns);
	if (!c)
		return;
	c->row.end_ns = time_ns;
	put(p, c);
}
