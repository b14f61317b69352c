/* reader.h - inside of a reader; for scan.c, read_tables.c and reader.c only. */
#pragma once

#include "base/map64.h"
#include "recording/format.h"
#include "recording/recording.h"
#include "recording/schema.h"

/* Bounds on what a file may stand for: a few bytes can decompress to a lot. Each is a part that any
 * file may have and one for each of its bytes. Real recordings take about 4 bytes for a call, and
 * what is most regular in them (counters that stay) a third of a byte for a row; they decompress to
 * 20 times their size at most. */
#define REC_ROWS_FREE	   (64u << 10)
#define REC_ROWS_PER_BYTE  32
#define REC_RAW_FREE	   ((uint64_t)16 << 20)
#define REC_RAW_PER_BYTE   256
#define REC_TABLE_FREE	   ((uint64_t)64 << 20)
#define REC_TABLE_PER_BYTE 256
#define REC_TABLE_MOST	   ((uint64_t)1 << 30)
/* Texts that rows name, each as often as it is named: of tables together, of a bulk block alone. */
#define REC_TEXT_FREE	     ((uint64_t)8 << 20)
#define REC_TEXT_PER_BYTE    256
#define REC_BLOCK_TEXT_FREE  ((uint64_t)64 << 10)
#define REC_BLOCK_TEXT_RATIO 4096

struct block_ref {
	uint64_t payload_at;
	struct block_header h;
};

/* What a call's probe says about how to check it. */
struct probe_check {
	bool known;
	uint8_t strings; /* bit per argument: a string number */
	uint8_t codes;	 /* a code number */
	uint32_t text;	 /* bytes of its names: what printing a call of it repeats */
};

struct rec_reader {
	int fd;
	uint64_t size;
	struct rec_tables t;
	struct row_source source;
	VEC(struct block_ref) blocks[ROW_KINDS]; /* of bulk rows */
	struct end_row end;

	/* Of kinds that have numbers: which rows were in the file; the others are gaps. */
	VEC(uint8_t) known[ROW_KINDS];
	size_t string_bytes;
	uint64_t rows;		  /* of all blocks so far, and gaps in dictionaries */
	uint64_t raw_bytes;	  /* of all blocks so far, decompressed */
	uint64_t text_bytes;	  /* of strings, as often as rows of tables name them */
	bool over;		  /* more of one of these than a file of its size can have */
	size_t sorted[ROW_KINDS]; /* of kinds that have keys: length after the last removal of
				   * replaced rows */

	VEC(struct probe_check) checks; /* by probe */
	uint32_t lost_string;		/* what a bad string number becomes: "(lost)", or 0 */
	uint32_t cut_string;		/* what a string past the bound on text becomes; 0 none */
	uint32_t lost_code;		/* likewise; UINT32_MAX when the file lost nothing */
	uint32_t lost_stack;		/* what a bad stack number becomes; 0 likewise */

	struct map64 old_metrics; /* old_counters.c's: name << 32 | entity -> metric */

	bool lost_blocks; /* blocks follow that may refer to lost ones */
	uint32_t damaged_places;
	char damage[128];      /* what is wrong at t.damaged_at */
	uint64_t calls_before; /* it */
	uint64_t dropped;      /* rows that refer to lost ones */

	struct buf stored; /* scratch of the scan */
	struct buf raw;
};

/* Reads n bytes at an offset; false at the end of the file and on errors. */
bool reader_pread(const struct rec_reader *r, void *p, size_t n, uint64_t at);

/* Reads, checks and decompresses one block into raw. */
int reader_payload(const struct rec_reader *r, const struct block_ref *ref, struct buf *raw,
		   struct err *e);

/* Adds a string that is not of the file. */
uint32_t reader_string(struct rec_reader *r, const char *s, size_t len);

/* old_counters.c: counters of recordings that have no metrics. open: once the tables are good. */
void old_counters_open(struct rec_reader *r);
bool old_counters_are(const struct buf *raw);
int old_counters_decode(const struct rec_reader *r, const struct buf *raw, size_t n,
			void **ret_rows);

/* Walks the whole file: checks every block, hands it to tables_add, finds damage. */
void scan_blocks(struct rec_reader *r);

/* Counts rows, or gaps between rows; -EDQUOT when the file cannot hold as many. */
int reader_count_rows(struct rec_reader *r, uint64_t rows);

/* Puts the damage into one sentence. */
void scan_damage_sentence(struct rec_reader *r);
void scan_note_damage(struct rec_reader *r, uint64_t at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Takes over one intact block. Negative errno when its content is not what the format says. */
int tables_add(struct rec_reader *r, const struct block_header *h, uint64_t payload_at,
	       const uint8_t *stored);

/* After the last block: fills gaps, makes every number in the tables good. */
void tables_finish(struct rec_reader *r);
void tables_free(struct rec_reader *r);
