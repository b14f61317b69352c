/* outlook_impl.h - what outlook.c and outlook_rules.c share. */
#pragma once

#include "analyze/trend.h"
#include "base/map64.h"
#include "incident/outlook.h"

#define S 1000000000ULL

struct series {
	const struct thing *of; /* NULL: free */
	struct entity who;	/* its strings are the series' own */
	uint32_t turn;		/* counts who has had this room */
	bool own_name;		/* its counter is told, and not that in its place */
	struct trend trend;	/* values that fall are below 0 there */
	double beside, sum;	/* the limit as it is; of rates their sum */
	double first, again;	/* of errors: what there was, and how many are told once more */
	uint64_t first_ns, last_ns, judged_ns;
	uint32_t hits, misses;
	bool told;
	struct outlook_warning warning;
};

struct outlook {
	struct outlook_options options;
	struct series *series[OUTLOOK_SERIES_MOST];
	uint32_t len, vacant;	/* of these so many are given away */
	struct map64 by_number; /* of a metric -> a place, see place_of; NOT_ASKED */
	struct map64 by_name;	/* hash of who and what -> place in series */
	uint64_t swept_ns, looked_ns, warnings, left_out;
};

typedef bool outlook_rule(const struct outlook *o, const struct series *s,
			  struct outlook_warning *ret);

/* Which counters, of what; what stands beside them; what is taken where they are not told. */
struct thing {
	uint8_t kind; /* enum entity_kind */
	bool of_pid;  /* of a GPU: of a process on it */
	bool falls;   /* 0 is the limit */
	bool is_rate;
	const char *name, *beside, *instead;
	outlook_rule *rule; /* NULL: each that is new is an error */
};

extern const struct thing outlook_things[];
extern const size_t outlook_things_len;

/* What the process's memory that grows is told by, and what has begun, and may have ended. */
outlook_rule outlook_leaks, outlook_resends;

bool outlook_is_same_gpu(const struct entity *a, const struct entity *b);
/* A warning of what a series has now; g: since it grows, or NULL. */
void outlook_fill_in(const struct series *s, const struct trend_growth *g,
		     struct outlook_warning *ret);
