/* format.h - the .eacgm file format, version 1, and the blocks it is made of.
 *
 * Specification. All numbers are little-endian. A file is a file header and then blocks,
 * one after the other without padding; it is only ever appended to.
 *
 * File header, 64 bytes:
 *    0  u8[8]  magic 89 'e' 'A' 'C' 'G' 'M' 0D 0A (the last two show text-mode transfers)
 *    8  u16    major version: a reader refuses a higher one than it knows
 *   10  u16    minor version: for people; readers of the same major version read it
 *   12  u32    byte order mark 0x01020304
 *   16  u64    CLOCK_REALTIME at creation, ns
 *   24  u64    CLOCK_MONOTONIC at creation, ns
 *   32  u8[28] zero
 *   60  u32    CRC-32 of bytes 0..59
 *
 * Block: a header of 48 bytes, then stored_bytes of payload:
 *    0  u32  magic "EBLK"
 *    4  u8   type, enum row_kind or block_type: a reader skips types that it does not know
 *    5  u8   flags: 1 = the payload is one zstd frame; others 0
 *    6  u16  zero
 *    8  u32  rows, at most 1 Mi; in a table at least 1
 *   12  u32  raw_bytes: length of the payload once decompressed, at most 64 MiB
 *   16  u32  stored_bytes: length of the payload in the file
 *   20  u32  CRC-32 of the stored payload
 *   24  u64  earliest time in the block, ns; 0 when the block has no times
 *   32  u64  latest time in the block, ns
 *   40  u32  sequence number of the block, from 0: a gap tells of lost blocks
 *   44  u32  CRC-32 of bytes 0..43
 * CRC-32 is that of zlib and IEEE 802.3; zstd frames are those of RFC 8878.
 *
 * Times of a block: CALLS have the earliest start and the latest end, GPU_SPANS likewise;
 * COUNTERS and SAMPLES the earliest and the latest time_ns.
 *
 * The payload is a list of columns up to its end, each:
 *   u8 length of the name, the name, u8 enum field_type, u8 enum column_encoding,
 *   u32 number of values, u32 number of bytes, the bytes
 * Readers look columns up by name, ignore those they do not know, and take an absent
 * column as all 0. So fields are append-only: a new one is a new name, an old name never
 * changes its meaning, and a column that is all 0 is not written at all.
 *
 * Every value is 64 bits wide (a signed one sign-extended, a double its bits) until it is
 * stored into its field. Encodings:
 *   CONST     one LEB128: every value is this
 *   VARINT    LEB128 each
 *   DELTA     zigzag LEB128 of the difference to the value before (the first: to 0), mod 2^64
 *   FIXED     as many bytes each as the type is wide; not for I8 and I32
 *   SEGMENTS  runs, each LEB128 (length << 2 | mode), length > 0, then for mode
 *             0 one LEB128 that is every value; 1 LEB128 each; 2 DELTA, the value before
 *             being the last of the run before; 3 eight bytes each
 *
 * Tables (schema.c lists the fields): columns of one value a row, or of a fixed number of
 * values a row (histogram buckets, argument names), row after row. Strings are numbers of
 * the string table; number 0 is "" and is not written.
 *   STRINGS      number, length, and "bytes": all strings one after the other
 *   PROBES, THREADS, CODES, FRAMES, STACKS, METRICS  have a column "index"; a later row of the
 *                same index replaces. Indexes are dense from 0; of STACKS from 1, for stack 0 is
 *                "no stack", and a row's parent is a smaller index or 0
 *   PROCESSES (key: pid, start_ns), LOSSES (cause, cpu), HISTS (pid, probe, name; at most
 *                4,096 rows a block): a later row of the same key replaces the earlier
 *   GPUS (key: uuid), COMMS (pid, handle, start_ns), WAIT_TOTALS (thread,
 *                reason), CONNECTIONS (pid, source, destination,
 *                netns, first_ns), ANOMALIES (id, told_ns, layer, pid, gpu; at most 4,096 rows a
 *                block)   likewise
 *   MAPS, METAS, NOTES, WINDOWS, COUNTERS, ENUMS, EVENTS, SOURCES   rows in order of writing
 *   SAMPLES, GPU_SPANS, WAITS   rows in order of writing, in blocks of at most 64 Ki, which stay in
 * the file until they are asked for, as COUNTERS and CALLS do END          one row: calls,
 * calls_dropped (accepted but not written), counters, monotonic_ns at the end; the last block of a
 * file that was closed
 *
 * CALLS: rows are grouped by thread; within a thread they are in order of end time.
 *   thread, probe, end (start + duration, mod 2^64), dur: one value a row
 *   flags, depth, nargs: one value a row, the rows taken in order of their probe's number
 *                (rows of the same probe in file order)
 *   stack: one value a row, in file order (since 1.2)
 *   arg0..arg7: in that same order, one value for each row whose nargs is greater
 * Calls of one probe look alike, so grouping by probe makes long equal runs of the last two.
 *
 * Minor versions: 1.1 enums, gpus, communicators and events; 1.2 frames, stacks, samples, GPU
 * spans, stacks of calls; 1.3 sources (of merged recordings), connections, more of GPU spans;
 * 1.4 anomalies, and metrics, in whose place counters had texts before (old_counters.c); 1.5 waits
 * and totals of waits.
 *
 * Invariants that the writer keeps: a block is written whole or cut off again; a string or
 * dictionary row is in a block before the first block that refers to it; numbers in call
 * rows are in range of the dictionaries.
 *
 * Bounds: what a file stands for is bounded by its size, for all that a reader takes from it
 * (reader.h): rows and gaps between them, decompressed bytes, memory of tables, text that rows
 * name. A file that has more was made to; it is read up to there.
 *
 * Crashes: each block goes out in one pwrite(2), so a crash of the process leaves whole
 * blocks and at most one torn one at the end. A crash of the machine may leave a tail of
 * zeros or old data as well; both checksums catch that. Damage in the middle costs the
 * blocks it touches: the reader goes on at the next header whose magic and CRC hold and
 * whose sequence number is not lower than the one that was due. Rows in later blocks that
 * refer to lost dictionary rows are found by their numbers being out of range or in a gap. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "events/kinds.h"

#define REC_MAGIC                                                                                  \
	"\x89"                                                                                     \
	"eACGM\r\n"
#define REC_MAGIC_BYTES	      8
#define REC_MAJOR	      1
#define REC_MINOR	      5
#define REC_BYTE_ORDER	      0x01020304u
#define REC_FILE_HEADER_BYTES 64

#define REC_BLOCK_MAGIC	       0x4b4c4245u /* "EBLK" */
#define REC_BLOCK_HEADER_BYTES 48
#define REC_BLOCK_ZSTD	       1

#define REC_MAX_RAW_BYTES    (64u << 20)
#define REC_MAX_ROWS	     (1u << 20)
#define REC_MAX_HIST_ROWS    4096
#define REC_MAX_STRING_BYTES (1u << 20) /* longer ones are cut by the writer */
#define REC_MAX_PROBES	     (1u << 20)
#define REC_CALLS_PER_BLOCK  (64u << 10)
#define REC_ROWS_PER_BLOCK   (64u << 10)

/* Types of blocks: those of rows are enum row_kind's numbers. */
enum block_type {
	BLOCK_STRINGS = 1,
	BLOCK_END = 14,
};

struct block_header {
	uint8_t type; /* enum row_kind or block_type */
	uint8_t flags;
	uint32_t rows;
	uint32_t raw_bytes;
	uint32_t stored_bytes;
	uint32_t payload_crc;
	uint64_t first_ns;
	uint64_t last_ns;
	uint32_t sequence;
};

/* "calls", "strings"; "unknown" for a type of a later version. */
const char *block_type_name(uint8_t type);

void file_header_encode(uint8_t out[REC_FILE_HEADER_BYTES], uint64_t realtime_ns,
			uint64_t monotonic_ns);

/* Checks the first bytes of a file, of which there are n. *ret_intact: the checksum holds. */
int file_header_check(const uint8_t *in, size_t n, const char *path, bool *ret_intact,
		      struct err *e);

void block_header_encode(uint8_t out[REC_BLOCK_HEADER_BYTES], const struct block_header *h);

/* False when the magic, the checksum or a bound does not hold. */
bool block_header_decode(const uint8_t in[REC_BLOCK_HEADER_BYTES], struct block_header *ret);

uint32_t block_crc(const void *p, size_t n);

/* Compresses raw and appends header and payload to out; h->type, rows, first_ns, last_ns
 * and sequence are the caller's. cctx is a ZSTD_CCtx. */
int block_pack(struct buf *out, struct block_header *h, const struct buf *raw, void *cctx,
	       struct err *e);

/* Replaces raw by the payload of a block, decompressed; stored is h->stored_bytes long. */
int block_unpack(const struct block_header *h, const uint8_t *stored, struct buf *raw,
		 struct err *e);
