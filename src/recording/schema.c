/* schema.c - which fields each table has, and the loops that write and read any table.
 *
 * To add a field: append a line here and to the struct; old files then read as 0. To add a
 * table: a block type in format.h, the struct, its fields and its line in `tables`. Calls
 * have their own layout (calls.c). */
#include "recording/schema.h"

#include <errno.h>

#include "recording/column.h"
#include "recording/format.h"

#define LIST(strct, member, name, count, type, enc)                                                \
	{                                                                                          \
		name, offsetof(struct strct, member), count, type, enc                             \
	}
#define FIELD(strct, member, type, enc) LIST(strct, member, #member, 1, type, enc)
#define ROW(strct, member, type, enc)	LIST(strct, row.member, #member, 1, type, enc)

static const struct field string_fields[] = {
	FIELD(string_row, number, FIELD_U32, ENC_DELTA),
	LIST(string_row, len, "length", 1, FIELD_U32, ENC_VARINT),
};

static const struct field probe_fields[] = {
	FIELD(indexed_probe, index, FIELD_U32, ENC_DELTA),
	ROW(indexed_probe, layer, FIELD_U32, ENC_VARINT),
	ROW(indexed_probe, name, FIELD_U32, ENC_DELTA),
	ROW(indexed_probe, library, FIELD_U32, ENC_VARINT),
	ROW(indexed_probe, symbol, FIELD_U32, ENC_DELTA),
	ROW(indexed_probe, kind, FIELD_U8, ENC_FIXED),
	ROW(indexed_probe, nargs, FIELD_U8, ENC_FIXED),
	ROW(indexed_probe, has_return, FIELD_U8, ENC_FIXED),
	ROW(indexed_probe, name_arg, FIELD_I8, ENC_DELTA),
	LIST(indexed_probe, row.arg_names, "arg_names", MODEL_MAX_ARGS, FIELD_U32, ENC_VARINT),
	LIST(indexed_probe, row.arg_types, "arg_types", MODEL_MAX_ARGS, FIELD_U8, ENC_FIXED),
	LIST(indexed_probe, row.arg_enums, "arg_enums", MODEL_MAX_ARGS, FIELD_U32, ENC_VARINT),
	ROW(indexed_probe, role, FIELD_U32, ENC_VARINT),
	ROW(indexed_probe, stack_every, FIELD_U32, ENC_VARINT),
};

static const struct field thread_fields[] = {
	FIELD(indexed_thread, index, FIELD_U32, ENC_DELTA),
	ROW(indexed_thread, pid, FIELD_U32, ENC_DELTA),
	ROW(indexed_thread, tid, FIELD_U32, ENC_DELTA),
	ROW(indexed_thread, comm, FIELD_U32, ENC_VARINT),
};

static const struct field code_fields[] = {
	FIELD(indexed_code, index, FIELD_U32, ENC_DELTA),
	ROW(indexed_code, name, FIELD_U32, ENC_DELTA),
	ROW(indexed_code, file, FIELD_U32, ENC_VARINT),
	ROW(indexed_code, line, FIELD_U32, ENC_VARINT),
};

static const struct field process_fields[] = {
	FIELD(m_process, pid, FIELD_U32, ENC_DELTA),
	FIELD(m_process, parent_pid, FIELD_U32, ENC_DELTA),
	FIELD(m_process, comm, FIELD_U32, ENC_VARINT),
	FIELD(m_process, command, FIELD_U32, ENC_VARINT),
	FIELD(m_process, start_ns, FIELD_U64, ENC_DELTA),
	FIELD(m_process, end_ns, FIELD_U64, ENC_DELTA),
	FIELD(m_process, exit_code, FIELD_I32, ENC_DELTA),
	FIELD(m_process, rank, FIELD_I32, ENC_DELTA),
	FIELD(m_process, source, FIELD_U32, ENC_DELTA),
	FIELD(m_process, joined, FIELD_U8, ENC_FIXED),
};

static const struct field map_fields[] = {
	FIELD(m_map, pid, FIELD_U32, ENC_DELTA),
	FIELD(m_map, start, FIELD_U64, ENC_DELTA),
	FIELD(m_map, end, FIELD_U64, ENC_DELTA),
	FIELD(m_map, file_offset, FIELD_U64, ENC_VARINT),
	FIELD(m_map, path, FIELD_U32, ENC_DELTA),
	FIELD(m_map, build_id, FIELD_U32, ENC_DELTA),
	FIELD(m_map, time_ns, FIELD_U64, ENC_DELTA),
};

static const struct field meta_fields[] = {
	FIELD(m_meta, key, FIELD_U32, ENC_VARINT),
	FIELD(m_meta, value, FIELD_U32, ENC_VARINT),
};

static const struct field note_fields[] = {
	FIELD(m_note, subject, FIELD_U32, ENC_VARINT),
	FIELD(m_note, reason, FIELD_U32, ENC_VARINT),
	FIELD(m_note, time_ns, FIELD_U64, ENC_DELTA),
};

static const struct field window_fields[] = {
	FIELD(m_window, start_ns, FIELD_U64, ENC_DELTA),
	FIELD(m_window, end_ns, FIELD_U64, ENC_DELTA),
	FIELD(m_window, layer, FIELD_U32, ENC_VARINT),
};

static const struct field loss_fields[] = {
	FIELD(m_loss, cause, FIELD_U32, ENC_VARINT),
	FIELD(m_loss, cpu, FIELD_U32, ENC_VARINT),
	FIELD(m_loss, count, FIELD_U64, ENC_VARINT),
};

static const struct field hist_fields[] = {
	FIELD(m_hist, pid, FIELD_U32, ENC_DELTA),
	FIELD(m_hist, probe, FIELD_U32, ENC_DELTA),
	FIELD(m_hist, name, FIELD_U64, ENC_VARINT),
	FIELD(m_hist, count, FIELD_U64, ENC_VARINT),
	FIELD(m_hist, errors, FIELD_U64, ENC_VARINT),
	FIELD(m_hist, nested, FIELD_U64, ENC_VARINT),
	FIELD(m_hist, total_ns, FIELD_U64, ENC_VARINT),
	FIELD(m_hist, max_ns, FIELD_U64, ENC_VARINT),
	LIST(m_hist, buckets, "buckets", 128, FIELD_U32, ENC_VARINT),
};

static const struct field counter_fields[] = {
	FIELD(m_counter, time_ns, FIELD_U64, ENC_DELTA),
	FIELD(m_counter, name, FIELD_U32, ENC_VARINT),
	FIELD(m_counter, entity, FIELD_U32, ENC_VARINT),
	FIELD(m_counter, value, FIELD_F64, ENC_FIXED),
};

static const struct field enum_fields[] = {
	FIELD(m_enum, type, FIELD_U32, ENC_VARINT),
	FIELD(m_enum, name, FIELD_U32, ENC_DELTA),
	FIELD(m_enum, value, FIELD_I64, ENC_DELTA),
};

static const struct field gpu_fields[] = {
	FIELD(m_gpu, index, FIELD_U32, ENC_VARINT),
	FIELD(m_gpu, parent, FIELD_I32, ENC_DELTA),
	FIELD(m_gpu, uuid, FIELD_U32, ENC_VARINT),
	FIELD(m_gpu, name, FIELD_U32, ENC_VARINT),
	FIELD(m_gpu, bus_id, FIELD_U32, ENC_VARINT),
	FIELD(m_gpu, driver, FIELD_U32, ENC_VARINT),
	FIELD(m_gpu, memory_bytes, FIELD_U64, ENC_VARINT),
	FIELD(m_gpu, power_limit_w, FIELD_F64, ENC_FIXED),
	FIELD(m_gpu, seen_ns, FIELD_U64, ENC_DELTA),
	FIELD(m_gpu, gone_ns, FIELD_U64, ENC_DELTA),
	FIELD(m_gpu, host, FIELD_U32, ENC_VARINT),
};

static const struct field comm_fields[] = {
	FIELD(m_comm, pid, FIELD_U32, ENC_DELTA),     FIELD(m_comm, rank, FIELD_I32, ENC_DELTA),
	FIELD(m_comm, size, FIELD_I32, ENC_DELTA),    FIELD(m_comm, device, FIELD_I32, ENC_DELTA),
	FIELD(m_comm, handle, FIELD_U64, ENC_DELTA),  FIELD(m_comm, hash, FIELD_U64, ENC_VARINT),
	FIELD(m_comm, parent, FIELD_U64, ENC_VARINT), FIELD(m_comm, start_ns, FIELD_U64, ENC_DELTA),
	FIELD(m_comm, end_ns, FIELD_U64, ENC_DELTA),
};

static const struct field event_fields[] = {
	FIELD(m_event, time_ns, FIELD_U64, ENC_DELTA),
	FIELD(m_event, entity, FIELD_U32, ENC_VARINT),
	FIELD(m_event, name, FIELD_U32, ENC_VARINT),
	FIELD(m_event, text, FIELD_U32, ENC_VARINT),
};

static const struct field connection_fields[] = {
	FIELD(m_connection, pid, FIELD_U32, ENC_DELTA),
	FIELD(m_connection, source, FIELD_U32, ENC_DELTA),
	FIELD(m_connection, destination, FIELD_U32, ENC_DELTA),
	FIELD(m_connection, opener, FIELD_U32, ENC_VARINT),
	FIELD(m_connection, netns, FIELD_U64, ENC_DELTA),
	FIELD(m_connection, first_ns, FIELD_U64, ENC_DELTA),
	FIELD(m_connection, last_ns, FIELD_U64, ENC_DELTA),
	FIELD(m_connection, closed_ns, FIELD_U64, ENC_DELTA),
	FIELD(m_connection, bytes_sent, FIELD_U64, ENC_VARINT),
	FIELD(m_connection, bytes_received, FIELD_U64, ENC_VARINT),
	FIELD(m_connection, bytes_retransmitted, FIELD_U64, ENC_VARINT),
	FIELD(m_connection, retransmits, FIELD_U64, ENC_VARINT),
	FIELD(m_connection, sent_before, FIELD_U64, ENC_VARINT),
	FIELD(m_connection, received_before, FIELD_U64, ENC_VARINT),
	FIELD(m_connection, srtt_us, FIELD_U32, ENC_VARINT),
	FIELD(m_connection, by_nccl, FIELD_U8, ENC_FIXED),
};

static const struct field frame_fields[] = {
	FIELD(indexed_frame, index, FIELD_U32, ENC_DELTA),
	ROW(indexed_frame, kind, FIELD_U8, ENC_FIXED),
	ROW(indexed_frame, in_python, FIELD_U8, ENC_FIXED),
	ROW(indexed_frame, name, FIELD_U32, ENC_DELTA),
	ROW(indexed_frame, file, FIELD_U32, ENC_VARINT),
	ROW(indexed_frame, line, FIELD_U32, ENC_VARINT),
	ROW(indexed_frame, library, FIELD_U32, ENC_VARINT),
	ROW(indexed_frame, build_id, FIELD_U32, ENC_VARINT),
	ROW(indexed_frame, address, FIELD_U64, ENC_DELTA),
};

static const struct field stack_fields[] = {
	FIELD(indexed_stack, index, FIELD_U32, ENC_DELTA),
	ROW(indexed_stack, parent, FIELD_U32, ENC_DELTA),
	ROW(indexed_stack, frame, FIELD_U32, ENC_DELTA),
};

static const struct field sample_fields[] = {
	FIELD(m_sample, time_ns, FIELD_U64, ENC_DELTA),
	FIELD(m_sample, weight_ns, FIELD_U64, ENC_VARINT),
	FIELD(m_sample, thread, FIELD_U32, ENC_VARINT),
	FIELD(m_sample, stack, FIELD_U32, ENC_VARINT),
	FIELD(m_sample, kind, FIELD_U8, ENC_FIXED),
	FIELD(m_sample, reason, FIELD_U8, ENC_FIXED),
	FIELD(m_sample, waker, FIELD_U32, ENC_VARINT),
	FIELD(m_sample, waker_tid, FIELD_U32, ENC_VARINT),
};

static const struct field gpu_span_fields[] = {
	FIELD(m_gpu_span, start_ns, FIELD_U64, ENC_DELTA),
	FIELD(m_gpu_span, end_ns, FIELD_U64, ENC_DELTA),
	FIELD(m_gpu_span, pid, FIELD_U32, ENC_DELTA),
	FIELD(m_gpu_span, device, FIELD_I32, ENC_DELTA),
	FIELD(m_gpu_span, context, FIELD_U32, ENC_VARINT),
	FIELD(m_gpu_span, stream, FIELD_U32, ENC_VARINT),
	FIELD(m_gpu_span, correlation, FIELD_U32, ENC_DELTA),
	FIELD(m_gpu_span, name, FIELD_U32, ENC_VARINT),
	FIELD(m_gpu_span, work, FIELD_U8, ENC_FIXED),
	FIELD(m_gpu_span, copy_kind, FIELD_U8, ENC_FIXED),
	FIELD(m_gpu_span, bytes, FIELD_U64, ENC_VARINT),
	FIELD(m_gpu_span, graph_node, FIELD_U64, ENC_DELTA),
	FIELD(m_gpu_span, grid, FIELD_U64, ENC_VARINT),
	FIELD(m_gpu_span, block, FIELD_U64, ENC_VARINT),
	FIELD(m_gpu_span, graph, FIELD_U32, ENC_DELTA),
	FIELD(m_gpu_span, registers, FIELD_U32, ENC_VARINT),
	FIELD(m_gpu_span, shared_bytes, FIELD_U32, ENC_VARINT),
	FIELD(m_gpu_span, source_kind, FIELD_U8, ENC_FIXED),
	FIELD(m_gpu_span, destination_kind, FIELD_U8, ENC_FIXED),
	FIELD(m_gpu_span, async, FIELD_U8, ENC_FIXED),
	FIELD(m_gpu_span, called_ns, FIELD_U64, ENC_DELTA),
	FIELD(m_gpu_span, called_dur_ns, FIELD_U32, ENC_VARINT),
	FIELD(m_gpu_span, called_tid, FIELD_U32, ENC_DELTA),
};

static const struct field source_fields[] = {
	FIELD(m_source, path, FIELD_U32, ENC_VARINT),
	FIELD(m_source, host, FIELD_U32, ENC_VARINT),
	FIELD(m_source, shift_ns, FIELD_U64, ENC_DELTA),
	FIELD(m_source, error_ns, FIELD_U64, ENC_DELTA),
	FIELD(m_source, pid_shift, FIELD_U32, ENC_VARINT),
	FIELD(m_source, how, FIELD_U32, ENC_VARINT),
	FIELD(m_source, drift_ratio, FIELD_F64, ENC_FIXED),
};

static const struct field end_fields[] = {
	FIELD(end_row, calls, FIELD_U64, ENC_VARINT),
	FIELD(end_row, calls_dropped, FIELD_U64, ENC_VARINT),
	FIELD(end_row, counters, FIELD_U64, ENC_VARINT),
	FIELD(end_row, monotonic_ns, FIELD_U64, ENC_VARINT),
};

#define TABLE(type, row, rows, fields)                                                             \
	{                                                                                          \
		type, sizeof(struct row), rows, sizeof(fields) / sizeof((fields)[0]), fields       \
	}

static const struct table tables[] = {
	TABLE(BLOCK_STRINGS, string_row, REC_MAX_ROWS, string_fields),
	TABLE(ROW_PROBE, indexed_probe, REC_MAX_ROWS, probe_fields),
	TABLE(ROW_THREAD, indexed_thread, REC_MAX_ROWS, thread_fields),
	TABLE(ROW_CODE, indexed_code, REC_MAX_ROWS, code_fields),
	TABLE(ROW_PROCESS, m_process, REC_MAX_ROWS, process_fields),
	TABLE(ROW_MAP, m_map, REC_MAX_ROWS, map_fields),
	TABLE(ROW_META, m_meta, REC_MAX_ROWS, meta_fields),
	TABLE(ROW_NOTE, m_note, REC_MAX_ROWS, note_fields),
	TABLE(ROW_WINDOW, m_window, REC_MAX_ROWS, window_fields),
	TABLE(ROW_LOSS, m_loss, REC_MAX_ROWS, loss_fields),
	TABLE(ROW_HIST, m_hist, REC_MAX_HIST_ROWS, hist_fields),
	TABLE(ROW_COUNTER, m_counter, REC_MAX_ROWS, counter_fields),
	TABLE(ROW_ENUM, m_enum, REC_MAX_ROWS, enum_fields),
	TABLE(ROW_GPU, m_gpu, REC_MAX_ROWS, gpu_fields),
	TABLE(ROW_COMM, m_comm, REC_MAX_ROWS, comm_fields),
	TABLE(ROW_EVENT, m_event, REC_MAX_ROWS, event_fields),
	TABLE(ROW_FRAME, indexed_frame, REC_MAX_ROWS, frame_fields),
	TABLE(ROW_STACK, indexed_stack, REC_MAX_ROWS, stack_fields),
	TABLE(ROW_SAMPLE, m_sample, REC_ROWS_PER_BLOCK, sample_fields),
	TABLE(ROW_GPU_SPAN, m_gpu_span, REC_ROWS_PER_BLOCK, gpu_span_fields),
	TABLE(ROW_SOURCE, m_source, REC_MAX_ROWS, source_fields),
	TABLE(ROW_CONNECTION, m_connection, REC_MAX_ROWS, connection_fields),
	TABLE(BLOCK_END, end_row, 1, end_fields),
};

const struct table *table_of(uint8_t block_type)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		if (tables[i].block_type == block_type)
			return &tables[i];
	return NULL;
}

static uint64_t load(const uint8_t *p, uint8_t type)
{
	uint32_t v32;
	uint64_t v64;
	switch (type) {
	case FIELD_U8:
		return *p;
	case FIELD_I8:
		return (uint64_t)(int64_t)(int8_t)*p;
	case FIELD_U32:
		memcpy(&v32, p, sizeof(v32));
		return v32;
	case FIELD_I32:
		memcpy(&v32, p, sizeof(v32));
		return (uint64_t)(int64_t)(int32_t)v32;
	default:
		memcpy(&v64, p, sizeof(v64));
		return v64;
	}
}

void table_encode(struct buf *payload, const struct table *t, const void *rows, size_t n)
{
	uint64_t *values = NULL;
	for (size_t f = 0; f < t->nfields; f++) {
		const struct field *field = &t->fields[f];
		unsigned width = field_type_width(field->type);
		values = xrealloc(values, n * field->count, sizeof(*values));
		uint64_t *to = values;
		for (size_t i = 0; i < n; i++) {
			const uint8_t *from = (const uint8_t *)rows + i * t->row_bytes;
			for (size_t k = 0; k < field->count; k++)
				*to++ = load(from + field->offset + k * width, field->type);
		}
		column_put(payload, field->name, field->type, field->encoding, values,
			   n * field->count);
	}
	free(values);
}

/* A list of k values a row in the file: a later version may have made k larger, an earlier
 * one smaller. */
static int decode_list(const struct field *field, const struct column *c, uint8_t *rows,
		       size_t row_bytes, size_t n)
{
	size_t file_count = c->values / n;
	unsigned width = field_type_width(field->type);
	if (c->values % n || file_count > 4096 || c->values > (uint64_t)REC_MAX_HIST_ROWS * 4096)
		return -EBADMSG;
	uint64_t *values = xrealloc(NULL, c->values, sizeof(*values));
	int rc = column_decode(c, values, sizeof(*values), sizeof(*values));
	size_t count = file_count < field->count ? file_count : field->count;
	for (size_t i = 0; !rc && i < n; i++)
		for (size_t k = 0; k < count; k++) {
			uint64_t v = values[i * file_count + k];
			uint8_t *to = rows + i * row_bytes + field->offset + k * width;
			if (width == 1)
				*to = (uint8_t)v;
			else
				memcpy(to, &(uint32_t){(uint32_t)v}, sizeof(uint32_t));
		}
	free(values);
	return rc;
}

int table_decode(const struct table *t, const uint8_t *payload, size_t len, size_t n,
		 void **ret_rows)
{
	struct columns cols;
	int rc = columns_parse(payload, len, &cols);
	if (rc || !n || n > t->max_rows)
		return -EBADMSG;
	uint8_t *rows = xcalloc(n, t->row_bytes);
	for (size_t f = 0; !rc && f < t->nfields; f++) {
		const struct field *field = &t->fields[f];
		const struct column *c = columns_find(&cols, field->name);
		if (!c)
			continue;
		if (field->count > 1)
			rc = decode_list(field, c, rows, t->row_bytes, n);
		else if (c->values != n)
			rc = -EBADMSG;
		else
			rc = column_decode(c, rows + field->offset, t->row_bytes,
					   field_type_width(field->type));
	}
	if (rc)
		free(rows);
	else
		*ret_rows = rows;
	return rc;
}
