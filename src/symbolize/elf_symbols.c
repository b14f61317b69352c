/* elf_symbols.c - symbols of an ELF file: all of them, by name, by address.
 *
 * .dynsym and .symtab overlap: a set of address+name pairs drops the second copy. It is
 * made only when a file has both tables, or versions (which list one name twice), and
 * holds no local symbols: those are never in .dynsym and are most of a large .symtab. Names
 * in .symtab may end in "@@VERSION"; those are copies of dynamic symbols and are left out.
 *
 * By name goes through the GNU hash table where there is one: 35,000 string comparisons
 * for every library that a process maps would be felt. Its layout: "GNU Hash ELF Sections"
 * (blogs.oracle.com/solaris, A. Rogers), used by glibc's elf/dl-lookup.c. */
#include <stdlib.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "symbolize/elf_internal.h"

static Elf64_Sym sym_at(const struct elf_symtab *t, size_t i)
{
	Elf64_Sym sym;

	memcpy(&sym, t->entries + i * sizeof(sym), sizeof(sym));
	return sym;
}

/* Fills ret when the symbol is one that tracing can use: defined, named, with an address. */
static bool usable(const struct elf_file *f, const struct elf_symtab *t, const Elf64_Sym *sym,
		   struct elf_symbol *ret)
{
	unsigned int type = ELF64_ST_TYPE(sym->st_info);

	if (sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS || sym->st_shndx == SHN_COMMON)
		return false;
	if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_OBJECT && type != STT_NOTYPE)
		return false;
	if (sym->st_name == 0 || sym->st_name >= t->strings_len)
		return false;
	ret->name = t->strings + sym->st_name;
	if (!ret->name[0])
		return false;
	ret->address = sym->st_value;
	ret->size = sym->st_size;
	ret->is_function = type == STT_FUNC || type == STT_GNU_IFUNC;
	ret->is_local = ELF64_ST_BIND(sym->st_info) == STB_LOCAL;
	if (!elf_file_offset(f, ret->address, &ret->file_offset))
		ret->file_offset = 0;
	return true;
}

/* The pairs seen so far: 64-bit hashes of address and name. Two different symbols with one
 * hash would lose one of them; at a million symbols the odds are one in 10^7. */
struct seen {
	uint64_t *slots;
	size_t mask;
};

static void seen_init(struct seen *s, size_t max)
{
	size_t cap = 64;

	while (cap < 2 * max)
		cap *= 2;
	s->slots = xcalloc(cap, sizeof(*s->slots));
	s->mask = cap - 1;
}

/* True when the pair is new. */
static bool seen_add(struct seen *s, const struct elf_symbol *sym)
{
	uint64_t h = hash_bytes(sym->name, strlen(sym->name)) ^ hash_u64(sym->address);

	h += !h; /* 0 marks a free slot */
	for (size_t i = h & s->mask;; i = (i + 1) & s->mask) {
		if (s->slots[i] == h)
			return false;
		if (!s->slots[i]) {
			s->slots[i] = h;
			return true;
		}
	}
}

static int visit_table(const struct elf_file *f, const struct elf_symtab *t, struct seen *seen,
		       int (*visit)(const struct elf_symbol *sym, void *ctx), void *ctx)
{
	bool is_symtab = t == &f->symtab;

	for (size_t i = 0; i < t->count; i++) {
		Elf64_Sym raw = sym_at(t, i);
		struct elf_symbol sym;
		int rc;

		if (!usable(f, t, &raw, &sym))
			continue;
		if (is_symtab && !sym.is_local && strchr(sym.name, '@'))
			continue;
		if (seen->slots && !sym.is_local && !seen_add(seen, &sym))
			continue;
		rc = visit(&sym, ctx);
		if (rc)
			return rc;
	}
	return 0;
}

int elf_file_symbols(const struct elf_file *f,
		     int (*visit)(const struct elf_symbol *sym, void *ctx), void *ctx)
{
	struct seen seen = {0};
	int rc;

	if (f->versioned || (f->dynsym.count && f->symtab.count))
		seen_init(&seen, f->dynsym.count + f->symtab.count);
	rc = visit_table(f, &f->dynsym, &seen, visit, ctx);
	if (!rc)
		rc = visit_table(f, &f->symtab, &seen, visit, ctx);
	free(seen.slots);
	return rc;
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (uint8_t)*name;
	return h;
}

static bool is_named(const struct elf_file *f, const struct elf_symtab *t, size_t i,
		     const char *name, struct elf_symbol *ret)
{
	Elf64_Sym raw = sym_at(t, i);
	struct elf_symbol sym;

	if (raw.st_name >= t->strings_len || strcmp(t->strings + raw.st_name, name) != 0)
		return false;
	if (!usable(f, t, &raw, &sym))
		return false;
	*ret = sym;
	return true;
}

/* False also when the table is damaged: the name then counts as absent. */
static bool find_hashed(const struct elf_file *f, const char *name, struct elf_symbol *ret)
{
	const uint8_t *t = f->gnu_hash;
	uint64_t nbuckets, first, nbloom, buckets_at, chains_at, i, bits;
	uint32_t h = gnu_hash(name), shift;

	if (f->gnu_hash_len < 16)
		return false;
	nbuckets = elf_u32(t);
	first = elf_u32(t + 4);
	nbloom = elf_u32(t + 8);
	shift = elf_u32(t + 12) & 31;
	buckets_at = 16 + 8 * nbloom;
	chains_at = buckets_at + 4 * nbuckets;
	if (!nbuckets || !nbloom || chains_at > f->gnu_hash_len)
		return false;
	bits = elf_u64(t + 16 + 8 * ((h / 64) % nbloom));
	if (!((bits >> (h % 64)) & (bits >> ((h >> shift) % 64)) & 1))
		return false;
	i = elf_u32(t + buckets_at + 4 * (h % nbuckets));
	for (; i >= first && i < f->dynsym.count; i++) {
		uint32_t chain;

		if (!elf_in_range(f->gnu_hash_len, chains_at + 4 * (i - first), 4))
			return false;
		chain = elf_u32(t + chains_at + 4 * (i - first));
		if ((chain | 1) == (h | 1) && is_named(f, &f->dynsym, i, name, ret))
			return true;
		if (chain & 1)
			return false;
	}
	return false;
}

static bool find_linear(const struct elf_file *f, const struct elf_symtab *t, const char *name,
			struct elf_symbol *ret)
{
	for (size_t i = 0; i < t->count; i++)
		if (is_named(f, t, i, name, ret))
			return true;
	return false;
}

bool elf_file_find(const struct elf_file *f, const char *name, struct elf_symbol *ret)
{
	if (!name[0])
		return false;
	if (f->gnu_hash ? find_hashed(f, name, ret) : find_linear(f, &f->dynsym, name, ret))
		return true;
	return find_linear(f, &f->symtab, name, ret);
}

/* Of several names of one place the one people know is global, has a size and is a function. */
static uint8_t symbol_rank(const struct elf_symbol *sym)
{
	return (sym->is_function ? 0 : 4) + (sym->size ? 0 : 2) + (sym->is_local ? 1 : 0);
}

/* A symbol while they are put in order. */
struct symbol_ref {
	uint64_t address;
	uint32_t place; /* as in by_address */
	uint8_t rank;	/* which of several symbols at one address names it; 0 is best */
	bool dynamic;
};

static int compare_refs(const void *a, const void *b)
{
	const struct symbol_ref *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank > y->rank ? -1 : 1; /* the best comes last */
	if (x->dynamic != y->dynamic)
		return x->dynamic ? 1 : -1;
	return x->place > y->place ? -1 : x->place < y->place;
}

static void index_addresses(struct elf_file *f)
{
	const struct elf_symtab *tables[] = {&f->dynsym, &f->symtab};
	size_t n = 0, most = f->dynsym.count + f->symtab.count;
	struct symbol_ref *refs = xcalloc(most + 1, sizeof(*refs));

	for (int t = 0; t < 2 && most <= UINT32_MAX; t++) {
		for (size_t i = 0; i < tables[t]->count; i++) {
			Elf64_Sym raw = sym_at(tables[t], i);
			struct elf_symbol sym;

			if (!usable(f, tables[t], &raw, &sym))
				continue;
			refs[n++] = (struct symbol_ref){
				.address = sym.address,
				.place = (uint32_t)(t ? f->dynsym.count + i : i),
				.rank = symbol_rank(&sym),
				.dynamic = t == 0,
			};
		}
	}
	qsort(refs, n, sizeof(*refs), compare_refs);
	f->by_address = xcalloc(n + 1, sizeof(*f->by_address));
	for (size_t i = 0; i < n; i++)
		f->by_address[i] = refs[i].place;
	f->nby_address = n;
	free(refs);
}

static const struct elf_symtab *table_at(const struct elf_file *f, size_t at, size_t *ret_index)
{
	size_t place = f->by_address[at];
	bool dynamic = place < f->dynsym.count;

	*ret_index = dynamic ? place : place - f->dynsym.count;
	return dynamic ? &f->dynsym : &f->symtab;
}

static Elf64_Sym by_address_at(const struct elf_file *f, size_t at)
{
	size_t index;
	const struct elf_symtab *t = table_at(f, at, &index);

	return sym_at(t, index);
}

bool elf_file_symbol_at(struct elf_file *f, uint64_t address, struct elf_symbol *ret)
{
	size_t low = 0, high;

	if (!f->by_address)
		index_addresses(f);
	high = f->nby_address;
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (by_address_at(f, mid).st_value <= address)
			low = mid + 1;
		else
			high = mid;
	}
	/* A label without size inside a function hides it only from its own first byte on;
	 * a few steps back find the function around it. */
	for (size_t back = 1; back <= 8 && back <= low; back++) {
		size_t index;
		const struct elf_symtab *t = table_at(f, low - back, &index);
		Elf64_Sym raw = sym_at(t, index);
		bool covers = address - raw.st_value < raw.st_size ||
			      (raw.st_size == 0 && (back == 1 || address == raw.st_value));

		if (covers)
			return usable(f, t, &raw, ret);
	}
	return false;
}
