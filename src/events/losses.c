/* losses.c - the causes after which calls, samples and waits are in the recording all the same; see
 * wire/event.h and docs/developers/probing.md. */
#include "events/losses.h"

#include <stddef.h>
#include <string.h>

bool loss_is_kept(const char *cause)
{
	static const char *const kept[] = {
		"no_return",	"arg_fault",  "arg_cut",     "string_full",	 "return_unmatched",
		"late_guard",	"wait_stack", "wait_joined", "name_unresolved",	 "name_full",
		"code_full",	"frame_full", "python_line", "call_stack",	 "stack",
		"sample_stack", "stall",      "disk_io",     "inside_unmatched", "inside_no_return",
	};
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (!strcmp(cause, kept[i]))
			return true;
	return false;
}
