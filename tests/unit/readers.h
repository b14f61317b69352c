/* readers.h - the processes that read files for a pipeline under test. */
#pragma once

#include "pipeline/readers.h"

static struct namer_files readers_files;

static struct parser_service readers_start(void)
{
	static struct parser_op list[PIPELINE_OPS];
	const struct parser_ops ops = {list, PIPELINE_OPS};
	struct parser_service s = {0};
	struct err e = {""};
	pipeline_parser_ops(&readers_files, list);
	if (parser_host_start(&s.host, &ops, &e))
		fail_msg("%s", e.msg);
	return s;
}
