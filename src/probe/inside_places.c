/* inside_places.c - what a probe inside of a process is made of: its site, its island and its jump
 * (wire/call_ring.h). All of it goes into the process's own memory by /proc/PID/mem, which may
 * write to code, at places that are of our library or of a probed file by its mappings; what is
 * read there is believed only as far as it can harm that process alone. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/inside_impl.h"
#include "probe/inside_jump.h"

#define BREAKPOINT    0xcc
#define LIBRARY_BYTES (4 << 20) /* at most */

bool inside_peek(const struct writing *w, uint64_t address, void *ret, size_t len)
{
	return pread(w->memory, ret, len, (off_t)address) == (ssize_t)len;
}

bool inside_poke(const struct writing *w, uint64_t address, const void *data, size_t len)
{
	return pwrite(w->memory, data, len, (off_t)address) == (ssize_t)len;
}

uint64_t inside_site_at(const struct writing *w, uint32_t i)
{
	return w->in->sites + w->bias + (uint64_t)i * sizeof(struct call_site);
}

uint64_t inside_island_at(const struct writing *w, uint32_t i)
{
	return w->in->islands + w->bias + (uint64_t)i * CALL_ISLAND_BYTES;
}

static bool is_island(const struct writing *w, uint64_t address)
{
	return address - inside_island_at(w, 0) < (uint64_t)CALL_SITES_MOST * CALL_ISLAND_BYTES;
}

/* ---- code ---- */

static void put(uint8_t **at, const void *bytes, size_t n)
{
	memcpy(*at, bytes, n);
	*at += n;
}

/* An operand relative to the end of its instruction, which it ends. */
static void put_distance(uint8_t **at, uint64_t address, uint64_t to)
{
	int32_t distance = (int32_t)(to - (address + 4));
	put(at, &distance, sizeof(distance));
}

static void put_pop(uint8_t **at, int reg)
{
	const uint8_t pop[] = {0x41, (uint8_t)(0x58 | (reg & 7))};
	if (reg >= 8)
		put(at, pop, 2);
	else if (reg >= 0)
		put(at, pop + 1, 1);
}

/* Returns where in it the function's own code begins. */
static size_t make_island(const struct writing *w, uint32_t i, const struct inside *inside,
			  uint64_t function, uint8_t ret[CALL_ISLAND_BYTES])
{
	static const uint8_t push_r11[] = {0x41, 0x53};
	static const uint8_t lea_r11[] = {0x4c, 0x8d, 0x1d};
	static const uint8_t jmp[] = {0xe9};
	uint8_t *at = ret;
	uint64_t island = inside_island_at(w, i);
	size_t both = (size_t)inside->kept + inside->moved;
	put_pop(&at, inside->pushed);
	put(&at, push_r11, sizeof(push_r11));
	put(&at, lea_r11, sizeof(lea_r11));
	put_distance(&at, island + (size_t)(at - ret), inside_site_at(w, i));
	put(&at, jmp, sizeof(jmp));
	put_distance(&at, island + (size_t)(at - ret), w->in->entry + w->bias);
	size_t original = (size_t)(at - ret);
	at += prologue_move(&inside->rips, inside->code, both, function, at);
	inside_put_jump(island + (size_t)(at - ret), function + both, at);
	return original;
}

_Static_assert(2 + 2 + 7 + 5 + PROLOGUE_MOVED + CALL_JUMP_BYTES <= CALL_ISLAND_BYTES,
	       "it has room");

/* ---- places ---- */

void places_free(struct places *p)
{
	vec_free(&p->sites);
	vec_free(&p->islands);
	vec_free(&p->jumps);
}

/* As its file has it, but for the breakpoint of a uprobe in what is kept. */
bool inside_is_as_planned(const struct writing *w, const struct inside *inside, uint64_t function)
{
	uint8_t there[PROLOGUE_BYTES];
	size_t n = (size_t)inside->kept + inside->moved;
	if (!inside_peek(w, function, there, n))
		return false;
	if (there[inside->before] == BREAKPOINT)
		there[inside->before] = inside->code[inside->before];
	return !memcmp(there, inside->code, n);
}

bool inside_has_jump(const struct writing *w, uint64_t address, uint32_t *ret_island)
{
	uint8_t there[CALL_JUMP_BYTES];
	if (!inside_peek(w, address, there, sizeof(there)))
		return false;
	uint64_t to = inside_jump_leads_to(address, there);
	*ret_island = (uint32_t)((to - inside_island_at(w, 0)) / CALL_ISLAND_BYTES);
	return is_island(w, to);
}

bool inside_in_mapping(const struct proc_map *m, const struct site *site, uint64_t *function)
{
	uint64_t offset = site->offset - site->inside.before;
	*function = m->start + (offset - m->file_offset);
	return site->offset >= site->inside.before && offset >= m->file_offset &&
	       *function + PROLOGUE_BYTES <= m->end && *function >= m->start;
}

static struct call_objects objects_of(const struct plan *plan, const struct probe_desc *d)
{
	for (uint8_t i = 0; i < d->nargs; i++) {
		const struct arg_desc *a = &d->args[i];
		if ((a->fetch != FETCH_PYCODE && a->fetch != FETCH_PYSTRING) ||
		    a->layout >= plan->layouts.len)
			continue;
		const struct py_layout *l = &plan->layouts.data[a->layout];
		return (struct call_objects){
			.frame_code = l->frame_code,
			.code_name = l->code_qualname ? l->code_qualname : l->code_name,
			.str_length = l->str_length,
			.str_state = l->str_state,
			.str_ascii_data = l->str_ascii_data,
			.str_compact_data = l->str_compact_data,
			.code_filename = (uint8_t)l->code_filename,
			.frame_code_tagged = l->frame_code_tagged,
			.state_kind_shift = l->state_kind_shift,
			.state_ascii_shift = l->state_ascii_shift,
		};
	}
	return (struct call_objects){0};
}

void place_island(const struct writing *w, uint32_t i, const struct inside *inside,
		  uint64_t function, uint8_t ret[CALL_ISLAND_BYTES])
{
	memset(ret, BREAKPOINT, CALL_ISLAND_BYTES);
	make_island(w, i, inside, function, ret);
}

struct call_site place_site(const struct writing *w, uint32_t i, const struct site *site,
			    const struct plan *plan, uint64_t function)
{
	const struct probe_desc *desc = &plan->probes.data[site->probe].desc;
	uint8_t island[CALL_ISLAND_BYTES];
	size_t original = make_island(w, i, &site->inside, function, island);
	return (struct call_site){
		.original = inside_island_at(w, i) + original,
		.probe = site->probe,
		.stack_words = site->inside.stack_words,
		.layer = (uint8_t)site->layer,
		.flags = COOKIE_FLAGS(site->cookie),
		.trust = site->inside.trust,
		.mode = (uint8_t)w->in->modes[site->layer],
		.function = function,
		.desc = *desc,
		.objects = objects_of(plan, desc),
	};
}

void place_jump(const struct writing *w, uint32_t i, uint64_t address, uint8_t ret[CALL_JUMP_BYTES])
{
	inside_put_jump(address, inside_island_at(w, i), ret);
}

void places_add(const struct writing *w, struct places *p, const struct site *site,
		const struct plan *plan, uint64_t function)
{
	uint32_t i = w->used + (uint32_t)p->sites.len;
	uint8_t island[CALL_ISLAND_BYTES];
	place_island(w, i, &site->inside, function, island);
	*vec_push(&p->sites) = place_site(w, i, site, plan, function);
	for (size_t k = 0; k < sizeof(island); k++)
		*vec_push(&p->islands) = island[k];
	*vec_push(&p->jumps) = function + site->inside.kept;
}

int places_write(struct writing *w, const struct places *p)
{
	uint32_t used = w->used + (uint32_t)p->sites.len;
	if (!inside_poke(w, inside_site_at(w, w->used), p->sites.data,
			 p->sites.len * sizeof(*p->sites.data)) ||
	    !inside_poke(w, inside_island_at(w, w->used), p->islands.data, p->islands.len) ||
	    !inside_poke(w, w->in->used + w->bias, &used, sizeof(used)))
		return -errno;
	return 0;
}

/* ---- the library ---- */

static bool read_whole(int fd, void *ret, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = pread(fd, (char *)ret + done, len - done, (off_t)done);
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

static bool has_same_bytes(int a, int b)
{
	struct stat sa, sb;
	if (fstat(a, &sa) || fstat(b, &sb) || sa.st_size != sb.st_size ||
	    sa.st_size > LIBRARY_BYTES)
		return false;
	size_t len = (size_t)sa.st_size;
	char *bytes = xcalloc(2, len);
	bool same = read_whole(a, bytes, len) && read_whole(b, bytes + len, len) &&
		    !memcmp(bytes, bytes + len, len);
	free(bytes);
	return same;
}

bool tracer_is_copy(const char *library, pid_t pid, const struct proc_map *m)
{
	int theirs = proc_map_open("/proc", pid, m, NULL);
	int ours = open(library, O_RDONLY | O_CLOEXEC);
	bool same = theirs >= 0 && ours >= 0 && has_same_bytes(theirs, ours);
	if (theirs >= 0)
		close(theirs);
	if (ours >= 0)
		close(ours);
	return same;
}

/* Stacks and texts of a process are taken in the very file that it has mapped. */
static bool hook_copy(const struct writing *w, const struct proc_map *m)
{
	struct insider *in = w->in;
	const struct hook_site stack = {.offset = in->stack_offset},
			       text = {.offset = in->text_offset};
	struct stat own, st;
	struct err e;
	char path[64];
	int fd = proc_map_open("/proc", w->pid, m, &st);
	if (fd < 0)
		return false;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	bool is_own = !stat(in->path, &own) && own.st_dev == st.st_dev && own.st_ino == st.st_ino;
	bool ok = is_own ||
		  ((in->text_program < 0 ||
		    !attach_hooks(&in->links, in->method, in->text_program, path, &text, 1, &e)) &&
		   (in->stack_program < 0 ||
		    !attach_hooks(&in->links, in->method, in->stack_program, path, &stack, 1, &e)));
	close(fd);
	return ok;
}

/* Another version would have all at other places. */
static bool is_copy(const struct writing *w, const struct proc_map *m)
{
	uint64_t key = hash_u64(m->device) ^ m->inode, known;
	if (map64_get(&w->in->copies, key, &known))
		return known;
	known = tracer_is_copy(w->in->path, w->pid, m) && hook_copy(w, m);
	map64_set(&w->in->copies, key, known);
	return known;
}

bool inside_find_library(struct writing *w, const proc_maps_t *maps)
{
	const struct insider *in = w->in;
	for (size_t i = 0; i < maps->len; i++) {
		const struct proc_map *m = &maps->data[i];
		const char *slash = strrchr(m->path, '/');
		if (!m->inode || !slash || strcmp(slash + 1, CALL_SHIM) != 0 ||
		    in->islands_offset < m->file_offset ||
		    in->islands_offset - m->file_offset >= m->end - m->start || !is_copy(w, m))
			continue;
		w->bias = m->start + (in->islands_offset - m->file_offset) - in->islands;
		return inside_peek(w, in->used + w->bias, &w->used, sizeof(w->used)) &&
		       w->used <= CALL_SITES_MOST;
	}
	return false;
}
