/* kinds.c - the fields of every kind of row, once, for all that goes by fields. */
#include "events/kinds.h"

#include <string.h>

#include "events/tables.h"

#define FIELDS(stem, member, n, kind, as, meaning, key)                                            \
	{                                                                                          \
		.name = #member, .offset = offsetof(struct m_##stem, member), .count = (n),        \
		.type = FIELD_##kind, .coding = CODING_##as, .means = MEANS_##meaning,             \
		.is_key = (key)                                                                    \
	}
#define LIST(stem, member, n, type, coding, means)                                                 \
	FIELDS(stem, member, n, type, coding, means, false)
#define FIELD(stem, member, type, coding, means) FIELDS(stem, member, 1, type, coding, means, false)
#define KEY(stem, member, type, coding, means)	 FIELDS(stem, member, 1, type, coding, means, true)

static const struct row_field probe_fields[] = {
	FIELD(probe, layer, U32, VARINT, STRING),
	FIELD(probe, name, U32, DELTA, STRING),
	FIELD(probe, library, U32, VARINT, STRING),
	FIELD(probe, symbol, U32, DELTA, STRING),
	FIELD(probe, kind, U8, FIXED, NUMBER),
	FIELD(probe, nargs, U8, FIXED, NUMBER),
	FIELD(probe, has_return, U8, FIXED, NUMBER),
	FIELD(probe, name_arg, I8, DELTA, NUMBER),
	LIST(probe, arg_names, MODEL_MAX_ARGS, U32, VARINT, STRING),
	LIST(probe, arg_types, MODEL_MAX_ARGS, U8, FIXED, NUMBER),
	LIST(probe, arg_enums, MODEL_MAX_ARGS, U32, VARINT, STRING),
	FIELD(probe, role, U32, VARINT, STRING),
	FIELD(probe, stack_every, U32, VARINT, NUMBER),
};

static const struct row_field thread_fields[] = {
	FIELD(thread, pid, U32, DELTA, PID),
	FIELD(thread, tid, U32, DELTA, PID),
	FIELD(thread, comm, U32, VARINT, STRING),
};

static const struct row_field code_fields[] = {
	FIELD(code, name, U32, DELTA, STRING),
	FIELD(code, file, U32, VARINT, STRING),
	FIELD(code, line, U32, VARINT, NUMBER),
};

static const struct row_field process_fields[] = {
	KEY(process, pid, U32, DELTA, PID),
	FIELD(process, parent_pid, U32, DELTA, PID),
	FIELD(process, comm, U32, VARINT, STRING),
	FIELD(process, command, U32, VARINT, STRING),
	KEY(process, start_ns, U64, DELTA, TIME),
	FIELD(process, end_ns, U64, DELTA, TIME),
	FIELD(process, exit_code, I32, DELTA, NUMBER),
	FIELD(process, rank, I32, DELTA, NUMBER),
	FIELD(process, source, U32, DELTA, NUMBER),
	FIELD(process, joined, U8, FIXED, NUMBER),
	FIELD(process, cpu_ns, U64, VARINT, NUMBER),
	FIELD(process, script, U32, VARINT, STRING),
	FIELD(process, cpu_limit, F64, FIXED, NUMBER),
};

static const struct row_field map_fields[] = {
	FIELD(map, pid, U32, DELTA, PID),      FIELD(map, start, U64, DELTA, NUMBER),
	FIELD(map, end, U64, DELTA, NUMBER),   FIELD(map, file_offset, U64, VARINT, NUMBER),
	FIELD(map, path, U32, DELTA, STRING),  FIELD(map, build_id, U32, DELTA, STRING),
	FIELD(map, time_ns, U64, DELTA, TIME),
};

static const struct row_field meta_fields[] = {
	FIELD(meta, key, U32, VARINT, STRING),
	FIELD(meta, value, U32, VARINT, STRING),
};

static const struct row_field note_fields[] = {
	FIELD(note, subject, U32, VARINT, ENTITY),
	FIELD(note, reason, U32, VARINT, STRING),
	FIELD(note, time_ns, U64, DELTA, TIME),
};

static const struct row_field window_fields[] = {
	FIELD(window, start_ns, U64, DELTA, TIME),
	FIELD(window, end_ns, U64, DELTA, TIME),
	FIELD(window, layer, U32, VARINT, STRING),
};

static const struct row_field loss_fields[] = {
	KEY(loss, cause, U32, VARINT, STRING),
	KEY(loss, cpu, U32, VARINT, NUMBER),
	FIELD(loss, count, U64, VARINT, NUMBER),
};

static const struct row_field hist_fields[] = {
	KEY(hist, pid, U32, DELTA, PID),
	KEY(hist, probe, U32, DELTA, PROBE),
	KEY(hist, name, U64, VARINT, VALUE),
	FIELD(hist, count, U64, VARINT, NUMBER),
	FIELD(hist, errors, U64, VARINT, NUMBER),
	FIELD(hist, nested, U64, VARINT, NUMBER),
	FIELD(hist, total_ns, U64, VARINT, NUMBER),
	FIELD(hist, max_ns, U64, VARINT, NUMBER),
	LIST(hist, buckets, 128, U32, VARINT, NUMBER),
};

static const struct row_field metric_fields[] = {
	FIELD(metric, kind, U8, FIXED, NUMBER),	     FIELD(metric, unit, U8, FIXED, NUMBER),
	FIELD(metric, pid, U32, DELTA, PID),	     FIELD(metric, gpu, U32, VARINT, NUMBER),
	FIELD(metric, instance, I32, DELTA, NUMBER), FIELD(metric, label, U32, VARINT, STRING),
	FIELD(metric, host, U32, VARINT, STRING),    FIELD(metric, name, U32, VARINT, STRING),
};

static const struct row_field counter_fields[] = {
	FIELD(counter, time_ns, U64, DELTA, TIME),
	FIELD(counter, metric, U32, VARINT, METRIC),
	FIELD(counter, value, F64, FIXED, NUMBER),
};

static const struct row_field enum_fields[] = {
	FIELD(enum, type, U32, VARINT, STRING),
	FIELD(enum, name, U32, DELTA, STRING),
	FIELD(enum, value, I64, DELTA, NUMBER),
};

static const struct row_field gpu_fields[] = {
	FIELD(gpu, index, U32, VARINT, NUMBER),
	FIELD(gpu, parent, I32, DELTA, NUMBER),
	KEY(gpu, uuid, U32, VARINT, STRING),
	FIELD(gpu, name, U32, VARINT, STRING),
	FIELD(gpu, bus_id, U32, VARINT, STRING),
	FIELD(gpu, driver, U32, VARINT, STRING),
	FIELD(gpu, memory_bytes, U64, VARINT, NUMBER),
	FIELD(gpu, power_limit_w, F64, FIXED, NUMBER),
	FIELD(gpu, seen_ns, U64, DELTA, TIME),
	FIELD(gpu, gone_ns, U64, DELTA, TIME),
	FIELD(gpu, host, U32, VARINT, STRING),
	FIELD(gpu, gpu_instance, I32, DELTA, NUMBER),
};

static const struct row_field comm_fields[] = {
	KEY(comm, pid, U32, DELTA, PID),	  FIELD(comm, rank, I32, DELTA, NUMBER),
	FIELD(comm, size, I32, DELTA, NUMBER),	  FIELD(comm, device, I32, DELTA, NUMBER),
	KEY(comm, handle, U64, DELTA, NUMBER),	  FIELD(comm, hash, U64, VARINT, NUMBER),
	FIELD(comm, parent, U64, VARINT, NUMBER), KEY(comm, start_ns, U64, DELTA, TIME),
	FIELD(comm, end_ns, U64, DELTA, TIME),
};

static const struct row_field event_fields[] = {
	FIELD(event, time_ns, U64, DELTA, TIME),
	FIELD(event, entity, U32, VARINT, ENTITY),
	FIELD(event, name, U32, VARINT, STRING),
	FIELD(event, text, U32, VARINT, STRING),
};

static const struct row_field connection_fields[] = {
	KEY(connection, pid, U32, DELTA, PID),
	KEY(connection, source, U32, DELTA, STRING),
	KEY(connection, destination, U32, DELTA, STRING),
	FIELD(connection, opener, U32, VARINT, STRING),
	KEY(connection, netns, U64, DELTA, NUMBER),
	KEY(connection, first_ns, U64, DELTA, TIME),
	FIELD(connection, last_ns, U64, DELTA, TIME),
	FIELD(connection, closed_ns, U64, DELTA, TIME),
	FIELD(connection, bytes_sent, U64, VARINT, NUMBER),
	FIELD(connection, bytes_received, U64, VARINT, NUMBER),
	FIELD(connection, bytes_retransmitted, U64, VARINT, NUMBER),
	FIELD(connection, retransmits, U64, VARINT, NUMBER),
	FIELD(connection, sent_before, U64, VARINT, NUMBER),
	FIELD(connection, received_before, U64, VARINT, NUMBER),
	FIELD(connection, srtt_us, U32, VARINT, NUMBER),
	FIELD(connection, by_nccl, U8, FIXED, NUMBER),
};

#define OF_FEATURE(member, type, coding, means)                                                    \
	LIST(anomaly, member, MODEL_ANOMALY_FEATURES, type, coding, means)
#define OF_CALL(member, type, coding, means)                                                       \
	LIST(anomaly, member, MODEL_ANOMALY_CALLS, type, coding, means)
static const struct row_field anomaly_fields[] = {
	KEY(anomaly, id, U64, DELTA, NUMBER),
	FIELD(anomaly, start_ns, U64, DELTA, TIME),
	FIELD(anomaly, end_ns, U64, DELTA, TIME),
	KEY(anomaly, told_ns, U64, DELTA, TIME),
	KEY(anomaly, layer, U32, VARINT, STRING),
	FIELD(anomaly, name, U32, VARINT, STRING),
	FIELD(anomaly, why, U32, VARINT, STRING),
	KEY(anomaly, pid, U32, DELTA, PID),
	KEY(anomaly, gpu, I32, DELTA, NUMBER),
	FIELD(anomaly, windows, U32, VARINT, NUMBER),
	FIELD(anomaly, ended, U8, FIXED, NUMBER),
	FIELD(anomaly, p_value, F64, FIXED, NUMBER),
	FIELD(anomaly, score, F64, FIXED, NUMBER),
	FIELD(anomaly, lost_ns, F64, FIXED, NUMBER),
	OF_FEATURE(feature_names, U32, VARINT, STRING),
	OF_FEATURE(feature_units, U32, VARINT, STRING),
	OF_FEATURE(feature_values, F64, FIXED, NUMBER),
	OF_FEATURE(feature_usuals, F64, FIXED, NUMBER),
	OF_FEATURE(feature_shares, F64, FIXED, NUMBER),
	OF_CALL(call_keys, U32, VARINT, STRING),
	OF_CALL(call_counts, U64, VARINT, NUMBER),
	OF_CALL(call_mean_ns, F64, FIXED, NUMBER),
	OF_CALL(call_usual_ns, F64, FIXED, NUMBER),
	OF_CALL(call_more_ns, F64, FIXED, NUMBER),
};

static const struct row_field incident_fields[] = {
	KEY(incident, id, U64, DELTA, NUMBER),
	FIELD(incident, onset_ns, U64, DELTA, TIME),
	FIELD(incident, end_ns, U64, DELTA, TIME),
	KEY(incident, told_ns, U64, DELTA, TIME),
	FIELD(incident, caused_ns, U64, DELTA, TIME),
	KEY(incident, pid, U32, DELTA, PID),
	FIELD(incident, ended, U8, FIXED, NUMBER),
	FIELD(incident, beside, U8, FIXED, NUMBER),
	FIELD(incident, cause, U32, VARINT, STRING),
	FIELD(incident, runner_up, U32, VARINT, STRING),
	FIELD(incident, what, U32, VARINT, STRING),
	FIELD(incident, against, U32, VARINT, STRING),
	FIELD(incident, culprit, U32, VARINT, STRING),
	FIELD(incident, culprit_pid, U32, DELTA, PID),
	FIELD(incident, culprit_kind, U32, VARINT, STRING),
	FIELD(incident, culprit_name, U32, VARINT, STRING),
	FIELD(incident, culprit_function, U32, VARINT, STRING),
	FIELD(incident, culprit_file, U32, VARINT, STRING),
	FIELD(incident, culprit_line, U32, VARINT, NUMBER),
	FIELD(incident, culprit_rank, U32, VARINT, NUMBER),
	FIELD(incident, why, U32, VARINT, STRING),
	FIELD(incident, confidence, F64, FIXED, NUMBER),
	FIELD(incident, cost_ns, F64, FIXED, NUMBER),
	FIELD(incident, usual_ns, F64, FIXED, NUMBER),
	FIELD(incident, unexplained_ns, F64, FIXED, NUMBER),
	LIST(incident, evidence, MODEL_INCIDENT_TEXTS, U32, VARINT, STRING),
	LIST(incident, owners, MODEL_INCIDENT_OWNERS, U32, VARINT, STRING),
	LIST(incident, owner_ns, MODEL_INCIDENT_OWNERS, F64, FIXED, NUMBER),
	FIELD(incident, culprit_cgroup, U32, VARINT, STRING),
	FIELD(incident, victim_phase, U32, VARINT, STRING),
	FIELD(incident, victim_function, U32, VARINT, STRING),
	FIELD(incident, victim_file, U32, VARINT, STRING),
	FIELD(incident, victim_line, U32, VARINT, NUMBER),
};

static const struct row_field frame_fields[] = {
	FIELD(frame, kind, U8, FIXED, NUMBER),	     FIELD(frame, in_python, U8, FIXED, NUMBER),
	FIELD(frame, name, U32, DELTA, STRING),	     FIELD(frame, file, U32, VARINT, STRING),
	FIELD(frame, line, U32, VARINT, NUMBER),     FIELD(frame, library, U32, VARINT, STRING),
	FIELD(frame, build_id, U32, VARINT, STRING), FIELD(frame, address, U64, DELTA, NUMBER),
	FIELD(frame, guessed, U8, FIXED, NUMBER),
};

static const struct row_field stack_fields[] = {
	FIELD(stack, parent, U32, DELTA, STACK),
	FIELD(stack, frame, U32, DELTA, FRAME),
};

static const struct row_field sample_fields[] = {
	FIELD(sample, time_ns, U64, DELTA, TIME),   FIELD(sample, weight_ns, U64, VARINT, NUMBER),
	FIELD(sample, thread, U32, VARINT, THREAD), FIELD(sample, stack, U32, VARINT, STACK),
	FIELD(sample, kind, U8, FIXED, NUMBER),	    FIELD(sample, reason, U8, FIXED, NUMBER),
	FIELD(sample, waker, U32, VARINT, STRING),  FIELD(sample, waker_tid, U32, VARINT, PID),
};

static const struct row_field wait_fields[] = {
	FIELD(wait, start_ns, U64, DELTA, TIME),
	FIELD(wait, end_ns, U64, DELTA, TIME),
	FIELD(wait, runnable_ns, U64, VARINT, NUMBER),
	FIELD(wait, thread, U32, VARINT, THREAD),
	FIELD(wait, syscall, I32, DELTA, NUMBER),
	FIELD(wait, waker_pid, U32, VARINT, PID),
	FIELD(wait, waker_tid, U32, VARINT, PID),
	FIELD(wait, reason, U8, FIXED, NUMBER),
	FIELD(wait, rival_pid, U32, VARINT, PID),
	FIELD(wait, rival, U32, VARINT, STRING),
	FIELD(wait, rival_cgroup, U32, VARINT, STRING),
	FIELD(wait, rival_leader_pid, U32, VARINT, PID),
	FIELD(wait, rival_leader, U32, VARINT, STRING),
};

static const struct row_field wait_total_fields[] = {
	KEY(wait_total, thread, U32, VARINT, THREAD),
	KEY(wait_total, reason, U8, FIXED, NUMBER),
	FIELD(wait_total, since_ns, U64, DELTA, TIME),
	FIELD(wait_total, until_ns, U64, DELTA, TIME),
	FIELD(wait_total, count, U64, VARINT, NUMBER),
	FIELD(wait_total, waited_ns, U64, VARINT, NUMBER),
	FIELD(wait_total, runnable_ns, U64, VARINT, NUMBER),
	FIELD(wait_total, longest_ns, U64, VARINT, NUMBER),
	FIELD(wait_total, left_out, U64, VARINT, NUMBER),
	FIELD(wait_total, cpus, U32, VARINT, NUMBER),
	FIELD(wait_total, uninterruptible_ns, U64, VARINT, NUMBER),
};

static const struct row_field stall_fields[] = {
	FIELD(stall, start_ns, U64, DELTA, TIME),   FIELD(stall, end_ns, U64, DELTA, TIME),
	FIELD(stall, own_ns, U64, VARINT, NUMBER),  FIELD(stall, thread, U32, VARINT, THREAD),
	FIELD(stall, number, I32, DELTA, NUMBER),   FIELD(stall, name, U32, VARINT, STRING),
	FIELD(stall, cpu, U32, VARINT, NUMBER),	    FIELD(stall, kind, U8, FIXED, NUMBER),
	FIELD(stall, sender_pid, U32, VARINT, PID), FIELD(stall, sender, U32, VARINT, STRING),
};

static const struct row_field stall_total_fields[] = {
	KEY(stall_total, thread, U32, VARINT, THREAD),
	KEY(stall_total, kind, U8, FIXED, NUMBER),
	KEY(stall_total, number, I32, DELTA, NUMBER),
	FIELD(stall_total, name, U32, VARINT, STRING),
	FIELD(stall_total, since_ns, U64, DELTA, TIME),
	FIELD(stall_total, until_ns, U64, DELTA, TIME),
	FIELD(stall_total, count, U64, VARINT, NUMBER),
	FIELD(stall_total, total_ns, U64, VARINT, NUMBER),
	FIELD(stall_total, longest_ns, U64, VARINT, NUMBER),
	FIELD(stall_total, left_out, U64, VARINT, NUMBER),
};

static const struct row_field disk_io_fields[] = {
	FIELD(disk_io, since_ns, U64, DELTA, TIME),
	FIELD(disk_io, until_ns, U64, DELTA, TIME),
	FIELD(disk_io, disk, U32, VARINT, STRING),
	FIELD(disk_io, pid, U32, DELTA, PID),
	FIELD(disk_io, comm, U32, VARINT, STRING),
	FIELD(disk_io, reads, U64, VARINT, NUMBER),
	FIELD(disk_io, writes, U64, VARINT, NUMBER),
	FIELD(disk_io, flushes, U64, VARINT, NUMBER),
	FIELD(disk_io, read_bytes, U64, VARINT, NUMBER),
	FIELD(disk_io, written_bytes, U64, VARINT, NUMBER),
	FIELD(disk_io, read_ns, U64, VARINT, NUMBER),
	FIELD(disk_io, write_ns, U64, VARINT, NUMBER),
	FIELD(disk_io, flush_ns, U64, VARINT, NUMBER),
	FIELD(disk_io, queued_ns, U64, VARINT, NUMBER),
	FIELD(disk_io, longest_ns, U64, VARINT, NUMBER),
};

static const struct row_field coverage_fields[] = {
	KEY(coverage, probe, U32, DELTA, PROBE),
	FIELD(coverage, on_ns, U64, VARINT, NUMBER),
	FIELD(coverage, off_ns, U64, VARINT, NUMBER),
	FIELD(coverage, changes, U32, VARINT, NUMBER),
	FIELD(coverage, in_bursts, U8, FIXED, NUMBER),
	FIELD(coverage, for_own, U8, FIXED, NUMBER),
};

static const struct row_field gpu_span_fields[] = {
	FIELD(gpu_span, start_ns, U64, DELTA, TIME),
	FIELD(gpu_span, end_ns, U64, DELTA, TIME),
	FIELD(gpu_span, pid, U32, DELTA, PID),
	FIELD(gpu_span, device, I32, DELTA, NUMBER),
	FIELD(gpu_span, context, U32, VARINT, NUMBER),
	FIELD(gpu_span, stream, U32, VARINT, NUMBER),
	FIELD(gpu_span, correlation, U32, DELTA, NUMBER),
	FIELD(gpu_span, name, U32, VARINT, STRING),
	FIELD(gpu_span, work, U8, FIXED, NUMBER),
	FIELD(gpu_span, copy_kind, U8, FIXED, NUMBER),
	FIELD(gpu_span, bytes, U64, VARINT, NUMBER),
	FIELD(gpu_span, graph_node, U64, DELTA, NUMBER),
	FIELD(gpu_span, grid, U64, VARINT, NUMBER),
	FIELD(gpu_span, block, U64, VARINT, NUMBER),
	FIELD(gpu_span, graph, U32, DELTA, NUMBER),
	FIELD(gpu_span, registers, U32, VARINT, NUMBER),
	FIELD(gpu_span, shared_bytes, U32, VARINT, NUMBER),
	FIELD(gpu_span, source_kind, U8, FIXED, NUMBER),
	FIELD(gpu_span, destination_kind, U8, FIXED, NUMBER),
	FIELD(gpu_span, async, U8, FIXED, NUMBER),
	FIELD(gpu_span, called_ns, U64, DELTA, TIME),
	FIELD(gpu_span, called_dur_ns, U32, VARINT, NUMBER),
	FIELD(gpu_span, called_tid, U32, DELTA, PID),
};

static const struct row_field call_fields[] = {
	FIELD(call, start_ns, U64, DELTA, TIME),
	FIELD(call, dur_ns, U64, VARINT, NUMBER),
	FIELD(call, thread, U32, VARINT, THREAD),
	FIELD(call, probe, U32, VARINT, PROBE),
	FIELD(call, flags, U8, FIXED, NUMBER),
	FIELD(call, depth, U8, FIXED, NUMBER),
	FIELD(call, nargs, U8, FIXED, NUMBER),
	FIELD(call, stack, U32, VARINT, STACK),
	LIST(call, args, MODEL_MAX_ARGS, U64, VARINT, VALUE),
};

static const struct row_field source_fields[] = {
	FIELD(source, path, U32, VARINT, STRING),	FIELD(source, host, U32, VARINT, STRING),
	FIELD(source, shift_ns, U64, DELTA, NUMBER),	FIELD(source, error_ns, U64, DELTA, NUMBER),
	FIELD(source, pid_shift, U32, VARINT, NUMBER),	FIELD(source, how, U32, VARINT, STRING),
	FIELD(source, drift_ratio, F64, FIXED, NUMBER),
};

#define WIDE_ROWS 4096 /* each has hundreds of bytes */
#define BULK_ROWS (64u << 10)

#define TABLE(NAME, stem, members, what, how, most)                                                \
	[ROW_##NAME] = {.id = #stem,                                                               \
			.name = (what),                                                            \
			.row_bytes = sizeof(struct m_##stem),                                      \
			.keeping = (how),                                                          \
			.most_rows = (most),                                                       \
			.fields = stem##_fields,                                                   \
			.nfields = sizeof(stem##_fields) / sizeof(*stem##_fields),                 \
			.table = offsetof(struct rec_tables, members)}
#define BULK(NAME, stem, members, what, first, last, most)                                         \
	[ROW_##NAME] = {.id = #stem,                                                               \
			.name = (what),                                                            \
			.row_bytes = sizeof(struct m_##stem),                                      \
			.keeping = ROWS_BULK,                                                      \
			.most_rows = (most),                                                       \
			.fields = stem##_fields,                                                   \
			.nfields = sizeof(stem##_fields) / sizeof(*stem##_fields),                 \
			.first_ns = offsetof(struct m_##stem, first),                              \
			.last_ns = offsetof(struct m_##stem, last),                                \
			.table = offsetof(struct rec_tables, members)}

static const struct row_kind_info kinds[ROW_KINDS] = {
	TABLE(META, meta, metas, "metas", ROWS_LISTED, 0),
	TABLE(SOURCE, source, sources, "sources", ROWS_LISTED, 0),
	TABLE(PROCESS, process, processes, "processes", ROWS_KEYED, 0),
	TABLE(THREAD, thread, threads, "threads", ROWS_INDEXED, 0),
	TABLE(PROBE, probe, probes, "probes", ROWS_INDEXED, 0),
	TABLE(CODE, code, codes, "codes", ROWS_INDEXED, 0),
	TABLE(FRAME, frame, frames, "frames", ROWS_INDEXED, 0),
	TABLE(STACK, stack, stacks, "stacks", ROWS_INDEXED, 0),
	TABLE(METRIC, metric, metrics, "metrics", ROWS_INDEXED, 0),
	TABLE(MAP, map, maps, "maps", ROWS_LISTED, 0),
	TABLE(NOTE, note, notes, "notes", ROWS_LISTED, 0),
	TABLE(WINDOW, window, windows, "windows", ROWS_LISTED, 0),
	TABLE(LOSS, loss, losses, "losses", ROWS_KEYED, 0),
	TABLE(HIST, hist, hists, "histograms", ROWS_KEYED, WIDE_ROWS),
	TABLE(ENUM, enum, enums, "enums", ROWS_LISTED, 0),
	TABLE(GPU, gpu, gpus, "gpus", ROWS_KEYED, 0),
	TABLE(COMM, comm, comms, "communicators", ROWS_KEYED, 0),
	TABLE(CONNECTION, connection, connections, "connections", ROWS_KEYED, 0),
	TABLE(EVENT, event, events, "events", ROWS_LISTED, 0),
	TABLE(ANOMALY, anomaly, anomalies, "anomalies", ROWS_KEYED, WIDE_ROWS),
	TABLE(WAIT_TOTAL, wait_total, wait_totals, "totals of waits", ROWS_KEYED, 0),
	TABLE(STALL_TOTAL, stall_total, stall_totals, "totals of stalls", ROWS_KEYED, 0),
	TABLE(INCIDENT, incident, incidents, "incidents", ROWS_KEYED, WIDE_ROWS),
	TABLE(COVERAGE, coverage, coverages, "how long probes were on", ROWS_KEYED, 0),
	BULK(COUNTER, counter, counters, "counters", time_ns, time_ns, 0),
	BULK(SAMPLE, sample, samples, "samples", time_ns, time_ns, BULK_ROWS),
	BULK(GPU_SPAN, gpu_span, gpu_spans, "GPU spans", start_ns, end_ns, BULK_ROWS),
	BULK(WAIT, wait, waits, "waits", start_ns, end_ns, BULK_ROWS),
	BULK(STALL, stall, stalls, "stalls", start_ns, end_ns, BULK_ROWS),
	BULK(DISK_IO, disk_io, disk_ios, "disk I/O", since_ns, until_ns, BULK_ROWS),
	BULK(CALL, call, calls, "calls", start_ns, start_ns, 0),
};

const struct row_kind_info *row_kind_info(unsigned kind)
{
	return kind < ROW_KINDS && kinds[kind].name ? &kinds[kind] : NULL;
}

unsigned field_type_width(uint8_t type)
{
	switch (type) {
	case FIELD_U8:
	case FIELD_I8:
	case FIELD_BYTES:
		return 1;
	case FIELD_U32:
	case FIELD_I32:
		return 4;
	case FIELD_U64:
	case FIELD_I64:
	case FIELD_F64:
		return 8;
	}
	return 0;
}

uint64_t row_value(const struct row_field *f, const void *row, size_t k)
{
	unsigned width = field_type_width(f->type);
	const uint8_t *p = (const uint8_t *)row + f->offset + k * width;
	uint64_t v64 = 0;
	uint32_t v32;
	if (width == 8) {
		memcpy(&v64, p, sizeof(v64));
		return v64;
	}
	if (width == 1)
		return f->type == FIELD_I8 ? (uint64_t)(int64_t)(int8_t)*p : *p;
	memcpy(&v32, p, sizeof(v32));
	return f->type == FIELD_I32 ? (uint64_t)(int64_t)(int32_t)v32 : v32;
}

void row_set_value(const struct row_field *f, void *row, size_t k, uint64_t value)
{
	unsigned width = field_type_width(f->type);
	uint8_t *p = (uint8_t *)row + f->offset + k * width;
	if (width == 1)
		*p = (uint8_t)value;
	else if (width == 4)
		memcpy(p, &(uint32_t){(uint32_t)value}, sizeof(uint32_t));
	else
		memcpy(p, &value, sizeof(value));
}

int row_compare_keys(const struct row_kind_info *k, const void *a, const void *b)
{
	for (size_t f = 0; f < k->nfields; f++) {
		if (!k->fields[f].is_key)
			continue;
		uint64_t x = row_value(&k->fields[f], a, 0), y = row_value(&k->fields[f], b, 0);
		if (x != y)
			return x < y ? -1 : 1;
	}
	return 0;
}
