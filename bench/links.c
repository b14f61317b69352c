/* links.c - how long the kernel takes to put many probes of one file on and off: the floor under
 * bursts. Empty programs, as spans, at all functions of a file whose symbols match a glob, in one
 * link where the kernel has such. Prints a line a round.
 *
 *   links FILE GLOB ROUNDS
 *
 * Processes that map the file have them too. Needs root. links: probe symbolize parser base */
#include <fnmatch.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/map64.h"
#include "probe/attach.h"
#include "symbolize/elf_file.h"

#define CODE_BYTES 64
#define PAUSE_NS   100000000

struct found {
	const struct elf_file *elf;
	const char *glob;
	struct map64 taken;
	VEC(struct site) sites;
};

static int visit(const struct elf_symbol *sym, void *ctx)
{
	struct found *f = ctx;
	uint64_t taken;
	if (!sym->is_function || fnmatch(f->glob, sym->name, 0))
		return 0;
	size_t len = sym->size && sym->size < CODE_BYTES ? sym->size : CODE_BYTES;
	const uint8_t *code = elf_file_bytes(f->elf, sym->address, len);
	if (!code)
		return 0;
	struct insn_place place = insn_choose(code, len, true);
	uint64_t offset = sym->file_offset + place.offset;
	if (place.cost == INSN_FORBIDDEN || map64_get(&f->taken, offset, &taken))
		return 0;
	map64_set(&f->taken, offset, 1);
	*vec_push(&f->sites) = (struct site){.offset = offset, .action = SITE_SPAN};
	return 0;
}

static double cpu_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)timespec_ns(&ts) / 1e6;
}

static double wall_ms(void)
{
	return (double)monotonic_ns() / 1e6;
}

static int one_round(const struct found *f, enum attach_method method, const char *path,
		     struct err *e)
{
	int prog = attach_load_empty(method, true);
	const struct attach_programs programs = {prog, prog, prog, prog, prog, prog};
	struct attach_links links = {0};
	double wall = wall_ms(), cpu = cpu_ms();
	int rc = attach_sites(&links, method, &programs, path, f->sites.data, f->sites.len, e);
	if (rc)
		return rc;
	printf("%zu places: on %.1f ms (CPU %.1f)", f->sites.len, wall_ms() - wall, cpu_ms() - cpu);
	nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
	wall = wall_ms();
	cpu = cpu_ms();
	attach_detach(&links);
	printf(", off %.1f ms (CPU %.1f)\n", wall_ms() - wall, cpu_ms() - cpu);
	nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
	return 0;
}

int main(int argc, char **argv)
{
	struct elf_file *elf;
	struct err e = {""};
	if (argc != 4) {
		fprintf(stderr, "usage: links FILE GLOB ROUNDS\n");
		return 2;
	}
	int rc = elf_file_open(&elf, argv[1], &e);
	if (!rc) {
		struct found f = {.elf = elf, .glob = argv[2]};
		enum attach_method method = attach_try_methods(&e);
		elf_file_symbols(elf, visit, &f);
		rc = method == ATTACH_AUTO;
		for (int i = 0; !rc && i < atoi(argv[3]); i++)
			rc = one_round(&f, method, argv[1], &e);
		vec_free(&f.sites);
		map64_free(&f.taken);
		elf_file_close(elf);
	}
	if (rc)
		fprintf(stderr, "links: %s\n", e.msg);
	return rc != 0;
}
