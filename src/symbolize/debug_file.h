/* debug_file.h - symbols that were stripped from a file and are kept elsewhere: in a debug file
 * of this host, or on a debuginfod server.
 *
 * Found by build id alone, so what is found fits. debuginfod is asked only when that was wanted:
 * it sends build ids to the servers of $DEBUGINFOD_URLS. */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "symbolize/elf_file.h"

struct debug_files;

/* root: where debug files are, NULL = /usr/lib/debug. With ask_servers, libdebuginfod is
 * loaded; where that fails *e says why, and the rest works. */
struct debug_files *debug_files_open(const char *root, bool ask_servers, struct err *e);
void debug_files_close(struct debug_files *d);

/* The file with the symbols of a build id (hexadecimal); NULL when there is none. The caller
 * closes it. May wait for a server. */
struct elf_file *debug_files_find(struct debug_files *d, const char *build_id);
