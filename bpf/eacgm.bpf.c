/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * eacgm.bpf.c - the object that is loaded; see README.md for its parts. */
#include "state.h"

#include "calls.h"
#include "catch.h"
#include "disk_io.h"
#include "graph_guard.h"
#include "hold.h"
#include "kernel_symbol.h"
#include "loader.h"
#include "open_calls.h"
#include "packets.h"
#include "samples.h"
#include "sockets.h"
#include "stalls.h"
#include "tasks.h"
#include "unwind.h"
#include "waits.h"
#include "xid.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
