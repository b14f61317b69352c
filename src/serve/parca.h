/* parca.h - a profile in the way that Parca takes it by HTTP: its ProfileStoreService/WriteRaw
 * (proto/parca/profilestore/v1alpha1/profilestore.proto of the public parca-dev/parca repository)
 * in protobuf's JSON, as the gateway that Parca serves below /api takes it. */
#pragma once

#include "base/buffer.h"
#include "session/live_series.h"

#define PARCA_PATH "/api/profiles/writeraw"

/* Appends a question with one profile of a process: pprof, gzipped or not. Parca knows it by its
 * labels, those of eacgm_process_info, and the host as the label "node". */
void parca_write(struct buf *ret, const struct live_process *of, const char *host,
		 const struct buf *pprof);
