/* torch_names.c - from at::_ops::add_Tensor::call to aten::add.
 *
 * torchgen joins an operator's name and overload with '_' to name the struct
 * (torchgen/model.py, FunctionSchema: unambiguous_name). Each struct has its schema as a
 * string, "add.Tensor(Tensor self, ...) -> Tensor" (torchgen/gen.py,
 * ComputeOperators: schema_str), without "aten::"; registrations may have it with. Only the
 * length of each name is kept, under the hash of the joined name.
 *
 * Linkers let one string be the tail of another ("erf.out(...)" within
 * "special_erf.out(...)"), and then the shorter one has no start of its own to be found
 * by. Such names are split by what is known: the longest known name whose rest is a known
 * overload, else the overload as it is usually written, CamelCase or "out". */
#include "symbolize/torch_names.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/buffer.h"
#include "base/map64.h"

#define MAX_NAME 256

struct torch_names {
	struct map64 joined;	/* "add_Tensor" -> length of "add" */
	struct map64 names;	/* "add" */
	struct map64 overloads; /* "Tensor" */
};

static bool is_name_byte(uint8_t c)
{
	return isalnum(c) || c == '_' || c == '.' || c == ':';
}

static bool has_result(const char *open, const char *end)
{
	return memmem(open, end - open, ") -> ", 5) != NULL;
}

static void add_schema(struct torch_names *n, const char *name, size_t len)
{
	static const char ns[] = "aten::";
	const char *dot;
	char joined[MAX_NAME];
	size_t name_len;

	if (len > sizeof(ns) - 1 && memcmp(name, ns, sizeof(ns) - 1) == 0) {
		name += sizeof(ns) - 1;
		len -= sizeof(ns) - 1;
	}
	if (len == 0 || len > sizeof(joined) || memchr(name, ':', len) || isdigit(name[0]))
		return;
	memcpy(joined, name, len);
	dot = memchr(name, '.', len);
	name_len = dot ? (size_t)(dot - name) : len;
	if (name_len == 0)
		return;
	if (dot) {
		joined[name_len] = '_';
		map64_set(&n->overloads, hash_bytes(dot + 1, len - name_len - 1), 1);
	}
	map64_set(&n->joined, hash_bytes(joined, len), name_len);
	map64_set(&n->names, hash_bytes(name, name_len), 1);
}

static void scan(struct torch_names *n, const char *data, size_t len)
{
	const char *end = data + len, *open = data;

	while ((open = memchr(open, '(', end - open))) {
		const char *start = open, *last;

		while (start > data && open - start < MAX_NAME && is_name_byte(start[-1]))
			start--;
		last = memchr(open, '\0', end - open);
		if (!last)
			return;
		if (start < open && (start == data || start[-1] == '\0') && has_result(open, last))
			add_schema(n, start, open - start);
		/* A string is looked at once: its other parentheses start no schema. */
		open = last;
	}
}

struct torch_names *torch_names_load(const struct elf_file *f)
{
	struct torch_names *n = xcalloc(1, sizeof(*n));
	const uint8_t *data;
	uint64_t address;
	size_t len;

	if (elf_file_section(f, ".rodata", &data, &len, &address))
		scan(n, (const char *)data, len);
	return n;
}

void torch_names_free(struct torch_names *n)
{
	if (!n)
		return;
	map64_free(&n->joined);
	map64_free(&n->names);
	map64_free(&n->overloads);
	free(n);
}

static bool known(const struct map64 *set, const char *s, size_t len)
{
	uint64_t ignored;

	return map64_get(set, hash_bytes(s, len), &ignored);
}

/* "Tensor", "Scalar_out" or "out"; not "dim_IntList". */
static bool usual_overload(const char *s, size_t len)
{
	if (len == 3 && memcmp(s, "out", 3) == 0)
		return true;
	return isupper((unsigned char)s[0]);
}

static size_t split_by_rule(const struct torch_names *n, const char *joined, size_t len)
{
	for (size_t at = len - 1; at > 0; at--)
		if (joined[at] == '_' && known(&n->names, joined, at) &&
		    known(&n->overloads, joined + at + 1, len - at - 1))
			return at;
	for (size_t at = 1; at + 1 < len; at++)
		if (joined[at] == '_' && usual_overload(joined + at + 1, len - at - 1))
			return at;
	return len;
}

static size_t name_length(const struct torch_names *n, const char *joined, size_t len)
{
	uint64_t exact;

	if (map64_get(&n->joined, hash_bytes(joined, len), &exact) && exact <= len)
		return exact;
	return split_by_rule(n, joined, len);
}

char *torch_operator_name(const struct torch_names *n, const char *symbol)
{
	static const char prefix[] = "_ZN2at4_ops", method[] = "4callE";
	const char *s = symbol;
	size_t len = 0;

	if (strncmp(s, prefix, sizeof(prefix) - 1) != 0)
		return NULL;
	for (s += sizeof(prefix) - 1; isdigit((unsigned char)*s) && len < MAX_NAME; s++)
		len = 10 * len + (*s - '0');
	if (len == 0 || len >= MAX_NAME || strnlen(s, len) < len ||
	    strncmp(s + len, method, sizeof(method) - 1) != 0)
		return NULL;
	return xasprintf("aten::%.*s", (int)name_length(n, s, len), s);
}
