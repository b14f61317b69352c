/* kallsyms.c - the kernel's functions: one as it prints it; or reads lines of "ADDRESS TYPE NAME
 * [MODULE]" and sorts what is code. */
#include "symbolize/kallsyms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"

struct ksym {
	uint64_t address;
	uint32_t name; /* offset in text */
	uint32_t module;
};

struct kallsyms {
	VEC(struct ksym) symbols;
	struct buf text; /* NUL-terminated; "" at 0 */
};

static uint32_t keep(struct buf *text, const char *s)
{
	uint32_t at = (uint32_t)text->len;
	buf_add(text, s, strlen(s) + 1);
	return at;
}

static void take_line(struct kallsyms *k, const char *line)
{
	unsigned long long address;
	char type, name[512], module[128] = "";
	int n = sscanf(line, "%llx %c %511s [%127[^]]]", &address, &type, name, module);
	if (n < 3 || !address || !strchr("tTwW", type))
		return;
	/* the module before is mostly the same */
	struct ksym *last = k->symbols.len ? &k->symbols.data[k->symbols.len - 1] : NULL;
	uint32_t m = 0;
	if (module[0] && last && !strcmp((char *)k->text.data + last->module, module))
		m = last->module;
	else if (module[0])
		m = keep(&k->text, module);
	uint32_t at = keep(&k->text, name);
	*vec_push(&k->symbols) = (struct ksym){address, at, m};
}

static int by_address(const void *a, const void *b)
{
	const struct ksym *x = a, *y = b;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name; /* the first of the list names it */
}

struct kallsyms *kallsyms_load(const char *root)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/kallsyms", root);
	FILE *f = fopen(path, "re");
	if (!f)
		return NULL;
	struct kallsyms *k = xcalloc(1, sizeof(*k));
	char *line = NULL;
	size_t size = 0;
	buf_byte(&k->text, 0);
	while (getline(&line, &size, f) > 0 && k->text.len < 1u << 30)
		take_line(k, line);
	free(line);
	fclose(f);
	if (!k->symbols.len) {
		kallsyms_free(k);
		return NULL;
	}
	qsort(k->symbols.data, k->symbols.len, sizeof(struct ksym), by_address);
	return k;
}

void kallsyms_free(struct kallsyms *k)
{
	if (!k)
		return;
	vec_free(&k->symbols);
	buf_free(&k->text);
	free(k);
}

const char *kallsyms_find(const struct kallsyms *k, uint64_t address, uint64_t *ret_start,
			  const char **ret_module)
{
	size_t low = 0, high = k->symbols.len;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (k->symbols.data[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return NULL;
	const struct ksym *s = &k->symbols.data[low - 1];
	while (s > k->symbols.data && s[-1].address == s->address)
		s--;
	*ret_start = s->address;
	*ret_module = (const char *)k->text.data + s->module;
	return (const char *)k->text.data + s->name;
}

bool kernel_symbol_parse(char *text, uint64_t address, struct kernel_symbol *ret)
{
	char *module = strstr(text, " [");
	*ret = (struct kernel_symbol){.name = text, .module = ""};
	if (module) {
		size_t len = strlen(module);
		if (module[len - 1] != ']')
			return false;
		module[len - 1] = 0;
		*module = 0;
		ret->module = module + 2;
	}
	char *plus = strrchr(text, '+'), *end;
	if (!plus || plus == text)
		return false;
	uint64_t offset = strtoull(plus + 1, &end, 16);
	*plus = 0;
	ret->start = address - offset;
	return *end == '/' && offset <= address;
}
