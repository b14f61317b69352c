/* kernel_symbols_fuzz.c - hostile lists of the kernel's functions, and what it prints of one.
 *
 * The first byte chooses: 'p' what is printed of an address, which is the next eight bytes;
 * anything else: a list, of which it is the first byte.
 *
 * links: base symbolize */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbolize/kallsyms.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/kernel_symbols_fuzz-XXXXXX";
static char path[sizeof(folder) + 16];
static int list = -1;

static void check(int holds)
{
	if (!holds)
		abort();
}

static void remove_list(void)
{
	unlink(path);
	rmdir(folder);
}

static void make_list(void)
{
	check(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/kallsyms", folder);
	atexit(remove_list);
	list = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	check(list >= 0);
}

static void look_at_printed(const uint8_t *data, size_t size)
{
	char text[KERNEL_SYMBOL_TEXT] = "";
	struct kernel_symbol symbol;
	uint64_t address;
	if (size < sizeof(address))
		return;
	memcpy(&address, data, sizeof(address));
	size -= sizeof(address);
	memcpy(text, data + sizeof(address), size < sizeof(text) ? size : sizeof(text) - 1);
	if (!kernel_symbol_parse(text, address, &symbol))
		return;
	check(symbol.start <= address && symbol.name[0]);
	check(strlen(symbol.name) + strlen(symbol.module) < sizeof(text));
}

static void look_at_list(const uint8_t *data, size_t size)
{
	static const uint64_t addresses[] = {0, 1, 0xffffffff81000000, UINT64_MAX};
	check(ftruncate(list, 0) == 0 && pwrite(list, data, size, 0) == (ssize_t)size);
	struct kallsyms *k = kallsyms_load(folder);
	for (size_t i = 0; k && i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		uint64_t start = 0;
		const char *module = NULL, *name = kallsyms_find(k, addresses[i], &start, &module);
		check(!name || (start && start <= addresses[i] && name[0] && strlen(module) < 128));
	}
	check(!k || kallsyms_find(k, UINT64_MAX, &(uint64_t){0}, &(const char *){NULL}));
	kallsyms_free(k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (list < 0)
		make_list();
	if (size && data[0] == 'p')
		look_at_printed(data + 1, size - 1);
	else if (size)
		look_at_list(data, size);
	return 0;
}
