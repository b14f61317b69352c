/* disk_io.h - what processes have disks do: sums for each process and disk. Shared by the BPF
 * programs and user space. */
#pragma once

#include <linux/types.h>

#define DISK_NAME 32 /* DISK_NAME_LEN, include/linux/blkdev.h */

struct disk_key {
	__u32 disk; /* its number: major << 20 | first minor */
	__u32 tgid; /* of who asked first; of a thread of the kernel its tid */
};

/* Since the first; requests count when they have ended. */
struct disk_sums {
	__u64 reads;
	__u64 writes;
	__u64 flushes; /* of the disk's own memory to what it keeps */
	__u64 read_bytes;
	__u64 written_bytes;
	__u64 read_ns; /* from when the disk was told until it had done it, summed up */
	__u64 write_ns;
	__u64 flush_ns;
	__u64 queued_ns;  /* from when they were made until the disk was told */
	__u64 longest[2]; /* the longest with the disk, of rounds with even numbers and odd ones */
	__u32 round[2];	  /* which rounds these are */
	char comm[16];	  /* of the process */
	char name[DISK_NAME];
};

/* What came of them in a while: the programs know nothing of it. longest[0] is its longest. */
struct disk_io {
	struct disk_key of;
	__u64 since_ns;
	__u64 until_ns;
	struct disk_sums sums;
};

#ifndef __cplusplus
_Static_assert(sizeof(struct disk_key) == 8, "shared by BPF and user space");
_Static_assert(sizeof(struct disk_sums) == 88 + 8 + 16 + DISK_NAME, "likewise");
#endif
