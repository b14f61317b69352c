/* cpython_eval.c - where in a file the interpreter's loop is.
 *
 * Compilers and BOLT move what a function seldom does to a part of its own, which only the
 * symbol table names (_PyEval_EvalFrameDefault.cold). In a stripped file that part is told
 * from other functions by the jumps: it is entered by a jump from the loop and has call frame
 * information of its own (struct cfi_fde), and a jump to another function (a tail call) goes
 * to that function's first byte, is unconditional and does not come back. A part that is
 * entered by nothing but jump tables is not found; neither are, in a stripped file, the
 * functions of a loop of tail calls (3.14, clang), which begin with _TAIL_CALL_. */
#include "symbolize/cpython_frames.h"

#include <capstone/capstone.h>
#include <stdlib.h>
#include <string.h>

#include "symbolize/eh_frame.h"

#define LOOP	   "_PyEval_EvalFrameDefault"
#define TAIL_CALLS "_TAIL_CALL_"
#define MAX_BYTES  (1u << 18) /* of a function; the longest known has 56 KiB */
#define MAX_JUMPS  4096	      /* out of it */
#define MAX_PARTS  64	      /* that it jumps to; bounds the work on hostile files */

struct ranges {
	uint64_t (*at)[2];
	size_t n, max;
};

static void add_range(struct ranges *r, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < r->n; i++) {
		if (start >= r->at[i][0] && end <= r->at[i][1])
			return;
	}
	if (start < end && r->n < r->max) {
		r->at[r->n][0] = start;
		r->at[r->n++][1] = end;
	}
}

/* ---- by names ---- */

struct named {
	struct ranges *ranges;
	uint64_t tail_start, tail_end; /* of all functions of a loop of tail calls */
};

static int add_named(const struct elf_symbol *s, void *ctx)
{
	struct named *n = ctx;

	if (!s->is_function || s->size == 0 || s->address + s->size < s->address)
		return 0;
	if (strncmp(s->name, LOOP ".cold", strlen(LOOP ".cold")) == 0)
		add_range(n->ranges, s->address, s->address + s->size);
	if (strncmp(s->name, TAIL_CALLS, strlen(TAIL_CALLS)) == 0) {
		if (n->tail_end == 0 || s->address < n->tail_start)
			n->tail_start = s->address;
		if (s->address + s->size > n->tail_end)
			n->tail_end = s->address + s->size;
	}
	return 0;
}

/* ---- by jumps ---- */

struct jump {
	uint64_t target;
	bool conditional;
};
typedef VEC(struct jump) jumps_t;

/* Direct jumps from [start, end) to somewhere else. */
static bool jumps_out(const struct elf_file *f, uint64_t start, uint64_t end, jumps_t *ret)
{
	const uint8_t *code;
	size_t left = end - start;
	uint64_t address = start;
	cs_insn *insn;
	csh cs;

	code = left <= MAX_BYTES ? elf_file_bytes(f, start, left) : NULL;
	if (!code || cs_open(CS_ARCH_X86, CS_MODE_64, &cs) != CS_ERR_OK)
		return false;
	cs_option(cs, CS_OPT_DETAIL, CS_OPT_ON);
	cs_option(cs, CS_OPT_SKIPDATA, CS_OPT_ON); /* an instruction that is not known */
	insn = cs_malloc(cs);
	while (insn && cs_disasm_iter(cs, &code, &left, &address, insn)) {
		uint64_t target;

		if (insn->id == 0 || !cs_insn_group(cs, insn, CS_GRP_JUMP) ||
		    insn->detail->x86.op_count != 1 ||
		    insn->detail->x86.operands[0].type != X86_OP_IMM)
			continue;
		target = insn->detail->x86.operands[0].imm;
		if (target < start || target >= end)
			*vec_push(ret) = (struct jump){target, insn->id != X86_INS_JMP};
	}
	if (insn)
		cs_free(insn, 1);
	cs_close(&cs);
	return true;
}

static const struct cfi_fde *fde_at(const struct cfi *c, uint64_t address)
{
	for (size_t i = 0; i < c->fdes.len; i++) {
		if (address >= c->fdes.data[i].start && address < c->fdes.data[i].end)
			return &c->fdes.data[i];
	}
	return NULL;
}

/* The entries of a procedure linkage table share one call frame information. */
static bool in_plt(const struct elf_file *f, uint64_t address)
{
	static const char *const names[] = {".plt", ".plt.sec", ".plt.got"};
	const uint8_t *data;
	uint64_t start;
	size_t len;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (elf_file_section(f, names[i], &data, &len, &start) && address >= start &&
		    address - start < len)
			return true;
	}
	return false;
}

/* Whether code jumps into a function elsewhere than to its first byte. */
static bool jumps_into(const struct elf_file *f, const struct cfi_fde *from, uint64_t start,
		       uint64_t end)
{
	bool found = false;
	jumps_t jumps = {0};

	jumps_out(f, from->start, from->end, &jumps);
	for (size_t i = 0; i < jumps.len && !found; i++)
		found = jumps.data[i].target > start && jumps.data[i].target < end;
	vec_free(&jumps);
	return found;
}

static int by_target(const void *a, const void *b)
{
	const struct jump *x = a, *y = b;

	return x->target < y->target ? -1 : x->target > y->target;
}

/* Takes together the jumps to one place. */
static void merge_jumps(jumps_t *jumps)
{
	size_t n = 0;

	if (jumps->len)
		qsort(jumps->data, jumps->len, sizeof(jumps->data[0]), by_target);
	for (size_t i = 0; i < jumps->len; i++) {
		const struct jump *j = &jumps->data[i];

		if (n && jumps->data[n - 1].target == j->target)
			jumps->data[n - 1].conditional |= j->conditional;
		else
			jumps->data[n++] = *j;
	}
	jumps->len = n < MAX_JUMPS ? n : MAX_JUMPS;
}

static void add_parts(const struct elf_file *f, const struct cfi *cfi, const jumps_t *jumps,
		      uint64_t start, uint64_t end, struct ranges *r)
{
	size_t checked = 0;

	for (size_t i = 0; i < jumps->len && checked < MAX_PARTS; i++) {
		const struct jump *j = &jumps->data[i];
		const struct cfi_fde *part = fde_at(cfi, j->target);

		if (!part || (part->start < end && part->end > start) || in_plt(f, j->target))
			continue;
		if (j->conditional || j->target > part->start)
			add_range(r, part->start, part->end);
		else if (++checked && jumps_into(f, part, start, end))
			add_range(r, part->start, part->end);
	}
}

static void add_jumped(const struct elf_file *f, uint64_t start, uint64_t end, struct ranges *r)
{
	struct cfi_section s = {.eh = true};
	struct cfi cfi = {0};
	jumps_t jumps = {0};
	struct err e;

	if (elf_file_section(f, ".eh_frame", &s.data, &s.len, &s.address) &&
	    jumps_out(f, start, end, &jumps) && jumps.len) {
		merge_jumps(&jumps);
		if (cfi_scan(&cfi, &s, &e) == 0)
			add_parts(f, &cfi, &jumps, start, end, r);
		cfi_free(&cfi);
	}
	vec_free(&jumps);
}

int cpython_eval_ranges(const struct elf_file *f, uint64_t (*ranges)[2], size_t max)
{
	struct ranges r = {.at = ranges, .max = max};
	struct named named = {.ranges = &r};
	struct elf_symbol loop;

	if (!elf_file_find(f, LOOP, &loop) || !loop.is_function || loop.size == 0 ||
	    loop.address + loop.size < loop.address)
		return 0;
	add_range(&r, loop.address, loop.address + loop.size);
	if (elf_file_has_symtab(f)) {
		elf_file_symbols(f, add_named, &named);
		add_range(&r, named.tail_start, named.tail_end);
	} else {
		add_jumped(f, loop.address, loop.address + loop.size, &r);
	}
	return r.n;
}
