/* recording_input.h - recordings made of a fuzzer's bytes.
 *
 * The first byte chooses: 'f' the rest is a file as it is; anything else: the rest is a list
 * of blocks (u8 type, u16 rows, u16 length, payload), from which a file with right checksums
 * is made, so that the fuzzer gets past them. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "recording/format.h"
#include "recording/recording.h"

static inline void check(int holds)
{
	if (!holds)
		abort();
}

static inline void make_file(struct buf *file, const uint8_t *p, size_t n)
{
	uint32_t sequence = 0;
	buf_reserve(file, REC_FILE_HEADER_BYTES);
	file_header_encode(file->data, 1, 2);
	file->len = REC_FILE_HEADER_BYTES;
	while (n >= 5) {
		size_t len = (size_t)p[3] | (size_t)p[4] << 8;
		if (len > n - 5)
			len = n - 5;
		struct block_header h = {
			.type = p[0],
			.rows = (uint32_t)p[1] | (uint32_t)p[2] << 8,
			.raw_bytes = (uint32_t)len,
			.stored_bytes = (uint32_t)len,
			.payload_crc = block_crc(p + 5, len),
			.sequence = sequence,
		};
		/* Now and then a block is missing. */
		sequence += (h.rows & 0x8000) ? 2 : 1;
		h.rows &= 0x7fff;
		buf_reserve(file, REC_BLOCK_HEADER_BYTES);
		block_header_encode(file->data + file->len, &h);
		file->len += REC_BLOCK_HEADER_BYTES;
		buf_add(file, p + 5, len);
		p += 5 + len;
		n -= 5 + len;
	}
}

/* Puts the recording that the bytes stand for into a file, which use opens by its path. */
static inline void with_recording(const uint8_t *data, size_t size, void (*use)(const char *path))
{
	struct buf file = {0};
	char path[64];
	if (!size)
		return;
	if (data[0] == 'f')
		buf_add(&file, data + 1, size - 1);
	else
		make_file(&file, data + 1, size - 1);
	int fd = memfd_create("recording_fuzz", MFD_CLOEXEC);
	check(fd >= 0);
	check(!file.len || write(fd, file.data, file.len) == (ssize_t)file.len);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	use(path);
	close(fd);
	buf_free(&file);
}
