/* causes_owners.h - what blame of an incident is of which kind of owner: for the rules of causes.c
 * and for who is behind a cause. No I/O. */
#pragma once

#include "incident/evidence.h"

typedef bool (*owner_is)(const struct blame_owner *o);

/* Whether a part is of whom the evidence is looked at for: the victim, or a rank it waited for. */
bool causes_is_looked_at(const struct evidence *e, const struct blame_part *p);
/* ns of the parts that are so, of whom the evidence is looked at for. */
double causes_part_sum(const struct evidence *e, owner_is is);
/* The greatest of them; NULL: none. */
const struct blame_part *causes_top_part(const struct evidence *e, owner_is is);
/* Of its own process: its threads take the CPU from each other. */
double causes_own_ready(const struct evidence *e);
/* By how much a counter (evidence_counter) is above usual; 0: there is none. */
double causes_counter_more(const struct evidence *e, unsigned kind, const char *name);

bool owner_is_taker(const struct blame_owner *o);
bool owner_is_no_cpu(const struct blame_owner *o);
bool owner_is_ready(const struct blame_owner *o);
bool owner_is_data(const struct blame_owner *o);
bool owner_is_disk(const struct blame_owner *o);
bool owner_is_write(const struct blame_owner *o);
bool owner_is_save(const struct blame_owner *o);
bool owner_is_compiler(const struct blame_owner *o);
bool owner_is_collector(const struct blame_owner *o);
bool owner_is_gil(const struct blame_owner *o);
/* Another thread of the process had the CPU, and ran Python. */
bool owner_is_own_python(const struct blame_owner *o);
/* Another thread that had Python's lock, and ran. */
bool owner_runs_with_gil(const struct blame_owner *o);
bool owner_is_lock(const struct blame_owner *o);
bool owner_is_line(const struct blame_owner *o);
bool owner_is_spread(const struct blame_owner *o);
bool owner_is_memory(const struct blame_owner *o);
bool owner_is_paging(const struct blame_owner *o);
bool owner_is_gpu_work(const struct blame_owner *o);
bool owner_is_gpu(const struct blame_owner *o);
bool owner_is_ranks(const struct blame_owner *o);
bool owner_is_stopped(const struct blame_owner *o);
bool owner_is_network(const struct blame_owner *o);
bool owner_is_reclaim(const struct blame_owner *o);
bool owner_is_filling(const struct blame_owner *o);
bool owner_is_interrupted(const struct blame_owner *o);
