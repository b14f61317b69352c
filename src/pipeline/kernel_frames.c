/* kernel_frames.c - places in the kernel, by function. Who traces can ask the running kernel for
 * one name; else all that /proc/kallsyms lists are read once, which takes a tenth of a second. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/stacks.h"
#include "symbolize/kallsyms.h"

#define ADDRESSES_MOST (1u << 17) /* past these all are asked for again: code can be made anew */

struct kernel_frames {
	struct map64 of_address; /* -> frame */
	struct kallsyms *listed;
	bool list_tried;
};

struct kernel_frames *kernel_frames_new(void)
{
	return xcalloc(1, sizeof(struct kernel_frames));
}

void kernel_frames_free(struct kernel_frames *k)
{
	map64_free(&k->of_address);
	kallsyms_free(k->listed);
	free(k);
}

void kernel_frames_forget(struct kernel_frames *k)
{
	map64_free(&k->of_address);
}

static struct kernel_symbol find_listed(struct pipeline *p, uint64_t address)
{
	struct kernel_frames *k = p->kernel_frames;
	struct kernel_symbol found = {.start = address, .name = "", .module = ""};
	if (!k->list_tried) {
		k->list_tried = true;
		k->listed = kallsyms_load(p->proc_root);
	}
	if (k->listed)
		found.name = kallsyms_find(k->listed, address, &found.start, &found.module);
	return found;
}

static uint32_t add(struct pipeline *p, const struct kernel_symbol *s)
{
	char library[160];
	snprintf(library, sizeof(library), "[%s]", s->module[0] ? s->module : "kernel");
	return frames_add_kernel(p, s->start, s->name, library);
}

uint32_t frames_of_kernel(struct pipeline *p, uint64_t address)
{
	struct kernel_frames *k = p->kernel_frames;
	char text[KERNEL_SYMBOL_TEXT];
	struct kernel_symbol symbol;
	uint64_t number;
	if (map64_get(&k->of_address, address, &number))
		return (uint32_t)number;
	if (!p->kernel.name || !p->kernel.name(p->kernel.ctx, address, text, sizeof(text)))
		symbol = find_listed(p, address);
	else if (!kernel_symbol_parse(text, address, &symbol))
		symbol = (struct kernel_symbol){.start = address, .name = "", .module = ""};
	uint32_t frame = add(p, &symbol);
	if (k->of_address.len >= ADDRESSES_MOST)
		map64_free(&k->of_address);
	map64_set(&k->of_address, address, frame);
	return frame;
}
