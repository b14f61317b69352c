/* definers.c - which other file that a target has mapped defines a function: calls of it go there
 * where that file is bound before the one that is probed. Files are read by a process without
 * rights; one that cannot be read defines nothing. It does not follow the order in which the
 * dynamic linker looks: that a function was never called is what its caller knows. */
#include <string.h>

#include "probe/definers.h"
#include "probe/tracer_impl.h"
#include "symbolize/elf_file.h"

#define READ_MS 1000

int definers_answer(void *ctx, int fd, const uint8_t *question, size_t len, struct buf *ret,
		    struct err *e)
{
	struct elf_file *elf;
	struct elf_symbol symbol;
	(void)ctx, (void)len;
	int rc = elf_file_open_fd(&elf, fd, "it", 0, e);
	if (rc)
		return rc;
	/* a zero follows the question; a local function of that name is another one */
	bool found = elf_file_find(elf, (const char *)question, &symbol) && symbol.is_function &&
		     !symbol.is_local;
	buf_byte(ret, found);
	elf_file_close(elf);
	return 0;
}

static bool defines(struct parser *reader, const struct probed_file *f, const char *symbol)
{
	struct buf answer = {0};
	struct err e;
	bool yes = !parser_ask(reader, PARSE_DEFINERS, f->fd, symbol, strlen(symbol), READ_MS,
			       &answer, &e) &&
		   answer.len == 1 && answer.data[0];
	buf_free(&answer);
	if (f->owner) /* it may lie about the next */
		parser_renew(reader);
	return yes;
}

const char *tracer_other_definer(struct tracer *t, const char *symbol, const char *library)
{
	const char *ret = NULL;
	struct parser *reader = parser_new(t->parser_host, false);
	for (size_t i = 0; i < t->files.list.len && !ret; i++) {
		const struct probed_file *f = t->files.list.data[i];
		if (f->fd >= 0 && !f->unreadable && strcmp(f->path, library) != 0 &&
		    defines(reader, f, symbol))
			ret = f->path;
	}
	parser_free(reader);
	return ret;
}
