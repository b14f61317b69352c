/* live_gpu_memory_test.c - whose device memory is while a session runs: owners by the code that
 * called, sums that are what NVML says at that time, bounds, and what is done where a free was not
 * seen.
 *
 * links: cli */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

#include <cmocka.h>

#include "fake_proc.h"
#include "feed_rows.h"
#include "base/entity.h"
#include "serve/exposition.h"
#include "serve/memory_series.h"
#include "session/live_series.h"
#include "session/session_live.h"
#include "session/session_names.h"
#include "wire/event.h"

#define MS     1000000ULL
#define SECOND 1000000000ULL
#define FAMILY "eacgm_gpu_process_memory_owned_bytes"

enum { ALLOC, MANAGED, CALLER, FREE, CREATE, MAP, UNMAP, RELEASE };
/* Where code lies, by maps. */
#define CUDART 0x11000
#define TORCH  0x21000
#define NCCL   0x31000
#define JIT    0x61000

static const char maps[] =
	"10000-12000 r-xp 00000000 08:01 11 /opt/nvidia/libcudart-d0da41ae.so.12\n"
	"20000-22000 r-xp 00000000 08:01 12 /opt/torch/lib/libc10_cuda.so\n"
	"30000-32000 r-xp 00000000 08:01 13 /usr/lib/libnccl.so.2.28.3\n"
	"40000-42000 r--p 00000000 08:01 14 /usr/lib/libno_code.so\n"
	"60000-62000 r-xp 00000000 00:00 0 \n";

static struct session_names names;
static struct detect_names numbers;
static struct live_series s;
static struct feed_batch b;
static uint32_t strings;

static uint32_t text(const char *string)
{
	*vec_push(&b.strings) = (struct feed_string){strings, (uint32_t)b.texts.len};
	buf_add(&b.texts, string, strlen(string) + 1);
	return strings++;
}

static void pass(uint64_t upto_ms)
{
	const struct session_view v = {.batch = &b, .names = &numbers, .upto_ns = upto_ms * MS};
	session_names_take(&names, &b);
	live_series_batch(&s, &v, upto_ms * MS);
	session_names_forget(&names, &b);
	feed_batch_empty(&b);
}

static void process(uint32_t pid, uint64_t end_ns)
{
	*vec_push(&b.processes) = (struct m_process){
		.pid = pid, .comm = text("python3"), .rank = -1, .start_ns = 1, .end_ns = end_ns};
}

static void probe(uint32_t number, const char *role, const char *first, const char *second,
		  const char *third)
{
	*vec_push(&b.probes) = (struct m_probe){
		.layer = text("cuda"),
		.name = text(role),
		.role = text(role),
		.name_arg = -1,
		.nargs = 4,
		.arg_names = {text(first), text(second), text(third), text("caller")}};
	*vec_push(&b.numbers[ROW_PROBE]) = number;
}

static void metric(uint32_t number, uint32_t pid, uint32_t gpu)
{
	*vec_push(&b.metrics) = (struct m_metric){.kind = ENTITY_GPU,
						  .unit = UNIT_BYTES,
						  .pid = pid,
						  .gpu = gpu,
						  .instance = -1,
						  .label = text(""),
						  .host = text(""),
						  .name = text("memory_used_bytes")};
	*vec_push(&b.numbers[ROW_METRIC]) = number;
}

/* Processes 7 and 8 with threads 0 and 1; NVML tells of 7 on GPUs 0 and 1, and of 8 on GPU 0. */
static int begin(void **unused)
{
	(void)unused;
	session_names_init(&names, pipeline_stack_bounds(true));
	session_names_get(&names, &numbers);
	s = (struct live_series){.gpu_memory.proc_root = folder};
	strings = 0;
	put_of_process(7, "maps", maps, sizeof(maps) - 1);
	text("");
	for (uint32_t i = 0; i < 2; i++) {
		process(7 + i, 0);
		*vec_push(&b.threads) = (struct m_thread){.pid = 7 + i, .tid = 7 + i};
		*vec_push(&b.numbers[ROW_THREAD]) = i;
	}
	probe(ALLOC, "alloc", "pointer", "bytes", "");
	probe(MANAGED, "alloc_managed", "pointer", "bytes", "");
	probe(CALLER, "alloc_caller", "pointer", "bytes", "");
	probe(FREE, "free", "pointer", "", "");
	probe(CREATE, "vmm_create", "handle", "bytes", "location");
	probe(MAP, "vmm_map", "address", "bytes", "handle");
	probe(UNMAP, "vmm_unmap", "address", "bytes", "");
	probe(RELEASE, "vmm_release", "handle", "", "");
	metric(0, 7, 0);
	metric(1, 7, 1);
	metric(2, 8, 0);
	*vec_push(&b.gpus) = (struct m_gpu){.index = 0, .parent = -1, .uuid = text("GPU-a")};
	pass(1000);
	return 0;
}

static int end(void **unused)
{
	(void)unused;
	feed_batch_empty(&b);
	live_series_free(&s);
	session_names_free(&names);
	return 0;
}

/* A call of thread 0 that takes 2 ms. */
static struct m_call *call(uint32_t number, uint64_t start_ms, uint64_t a0, uint64_t a1,
			   uint64_t a2, uint64_t caller)
{
	struct m_call *c = vec_push(&b.calls);
	*c = (struct m_call){.start_ns = start_ms * MS,
			     .dur_ns = 2 * MS,
			     .probe = number,
			     .nargs = 4,
			     .args = {a0, a1, a2, caller}};
	return c;
}

/* NVML says so of process 7 on GPU 0, at that time. */
static void answer(uint64_t at_ms, uint32_t of, double bytes)
{
	*vec_push(&b.counters) =
		(struct m_counter){.time_ns = at_ms * MS, .metric = of, .value = bytes};
}

static char *written(void)
{
	struct exposition x = {0};
	const struct series_sink sink = exposition_sink(&x);
	memory_series_write(&sink, &s);
	buf_byte(&x.text, 0);
	return (char *)x.text.data;
}

/* All samples, in their order. */
static void expect_samples(const char *wanted)
{
	char *all = written(), got[8192] = "", *save = NULL;
	for (char *l = strtok_r(all, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
		if (*l != '#')
			snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s\n", l);
	assert_string_equal(got, wanted);
	free(all);
}

#define OF(owner, bytes)                                                                           \
	FAMILY "{gpu=\"0\",uuid=\"GPU-a\",pid=\"7\",comm=\"python3\",owner=\"" owner "\"} " bytes  \
	       "\n"

static void owners_sum_up(void **unused)
{
	(void)unused;
	call(ALLOC, 1100, 0x100, 1000, 0, CUDART);
	call(CALLER, 1099, 0x100, 1000, 0, TORCH)->dur_ns = 4 * MS;
	call(ALLOC, 1110, 0x200, 500, 0, NCCL); /* by a runtime of its own */
	call(ALLOC, 1120, 0x300, 70, 0, CUDART);
	call(ALLOC, 1130, 0x400, 8, 0, JIT);
	call(MANAGED, 1140, 0x500, 1 << 20, 0, TORCH); /* may be on the host */
	call(ALLOC, 1150, 0x600, 99, 0, TORCH)->flags = CALL_ERROR;
	answer(1200, 0, 5000);
	pass(1300);
	expect_samples(OF("libcudart", "70") OF("libc10_cuda", "1000") OF("libnccl", "500")
			       OF("(other)", "8") OF("(not seen)", "3422"));
	call(FREE, 1400, 0x100, 0, 0, 0);
	call(FREE, 1410, 0xbad, 0, 0, 0); /* of before */
	answer(1500, 0, 4000);
	pass(1600);
	expect_samples(OF("libcudart", "70") OF("libc10_cuda", "0") OF("libnccl", "500")
			       OF("(other)", "8") OF("(not seen)", "3422"));
}

/* Calls count as of their ends, frees as of their starts, and NVML's answer as of its time, in
 * whatever batch and order they come. */
static void in_the_order_of_time(void **unused)
{
	(void)unused;
	answer(1200, 0, 1000);
	answer(1300, 0, 1500);
	answer(1400, 0, 1000);
	call(FREE, 1390, 0x200, 0, 0, 0);
	call(ALLOC, 1250, 0x200, 500, 0, NCCL);
	pass(1240);
	expect_samples(OF("(not seen)", "1000"));
	call(ALLOC, 1100, 0x100, 300, 0, NCCL); /* late: it is in the next answer */
	pass(1350);
	expect_samples(OF("libnccl", "800") OF("(not seen)", "700"));
	pass(1500);
	expect_samples(OF("libnccl", "300") OF("(not seen)", "700"));
	/* a free that comes after its address was given again */
	call(ALLOC, 1501, 0x100, 40, 0, NCCL);
	pass(1504);
	call(FREE, 1500, 0x100, 0, 0, 0)->dur_ns = 100 * MS;
	answer(1600, 0, 1000);
	pass(1700);
	expect_samples(OF("libnccl", "40") OF("(not seen)", "960"));
}

static void mapped_memory(void **unused)
{
	(void)unused;
	call(CREATE, 1100, 0x1, 4096, 1, TORCH);
	call(CREATE, 1110, 0x2, 8192, 3, NCCL); /* on the host */
	call(MAP, 1120, 0xa000, 4096, 0x1, 0);
	call(RELEASE, 1130, 0x1, 0, 0, 0); /* mapped still */
	answer(1200, 0, 10000);
	pass(1300);
	expect_samples(OF("libc10_cuda", "4096") OF("(not seen)", "5904"));
	call(CREATE, 1310, 0x1, 100, 1, NCCL); /* the handle again */
	call(CREATE, 1315, 0x3, 50, 1, NCCL);
	call(MAP, 1320, 0xb000, 50, 0x3, 0);
	call(MAP, 1320, 0xb000 + 50, 50, 0x3, 0);
	answer(1350, 0, 10000);
	pass(1400);
	expect_samples(OF("libc10_cuda", "4096") OF("libnccl", "150") OF("(not seen)", "5754"));
	call(UNMAP, 1410, 0xa000, 4096, 0, 0);
	call(UNMAP, 1420, 0xb000, 100, 0, 0); /* both */
	call(RELEASE, 1430, 0x3, 0, 0, 0);
	answer(1450, 0, 5000);
	pass(1500);
	expect_samples(OF("libc10_cuda", "0") OF("libnccl", "100") OF("(not seen)", "4900"));
}

/* What is mapped beside memory that was not seen being made is unmapped with it. */
static void mapped_beside_unseen(void **unused)
{
	(void)unused;
	call(CREATE, 1100, 0x1, 4096, 1, NCCL);
	call(MAP, 1110, 0xa000, 0x1000, 0x9, 0);
	call(MAP, 1120, 0xb000, 0x1000, 0x1, 0);
	call(RELEASE, 1130, 0x1, 0, 0, 0);
	answer(1200, 0, 10000);
	pass(1300);
	expect_samples(OF("libnccl", "4096") OF("(not seen)", "5904"));
	call(UNMAP, 1400, 0xa000, 0x2000, 0, 0);
	answer(1500, 0, 5000);
	pass(1600);
	expect_samples(OF("libnccl", "0") OF("(not seen)", "5000"));
	assert_int_equal(s.gpu_memory.room.blocks, 0);
	assert_int_equal(s.gpu_memory.room.mappings, 0);
}

static void many_mappings(void **unused)
{
	(void)unused;
	for (uint64_t i = 0; i < 70000; i++)
		call(MAP, 1100, 0x1000 * (i + 1), 0x1000, 0x9, 0)->start_ns += i;
	pass(1300);
	assert_int_equal(s.gpu_memory.room.mappings, 1 << 16);
	assert_int_equal(live_series_left_out(&s), 70000 - (1 << 16));
	call(UNMAP, 1400, 0x1000, 1000 * 0x1000ULL, 0, 0);
	pass(1500);
	assert_int_equal(s.gpu_memory.room.mappings, (1 << 16) - 1000);
	process(7, 5);
	pass(1600);
	assert_int_equal(s.gpu_memory.room.mappings, 0);
}

/* For a moment what was told stays; where it lasts, what there was is nobody's. */
static void more_than_nvml_says(void **unused)
{
	(void)unused;
	call(ALLOC, 1100, 0x100, 1000, 0, NCCL);
	answer(1200, 0, 1500);
	pass(1300);
	const char *before = OF("libnccl", "1000") OF("(not seen)", "500");
	expect_samples(before);
	for (uint64_t i = 0; i < 2; i++) {
		answer(1400 + i, 0, 900);
		pass(1500 + i);
		expect_samples(before);
	}
	answer(1600, 0, 1600);
	pass(1700);
	expect_samples(OF("libnccl", "1000") OF("(not seen)", "600"));
	for (uint64_t i = 0; i < 3; i++)
		answer(1800 + i, 0, 900);
	call(ALLOC, 1850, 0x200, 30, 0, NCCL);
	answer(1900, 0, 900);
	pass(2000);
	expect_samples(OF("libnccl", "30") OF("(not seen)", "870"));
}

static void coverage(uint32_t of, uint64_t off_ns)
{
	*vec_push(&b.coverages) = (struct m_coverage){.probe = of, .off_ns = off_ns};
}

/* A budget left out calls that free: of a process that frees so nothing is known any more. */
static void frees_that_are_left_out(void **unused)
{
	(void)unused;
	call(ALLOC, 1100, 0x100, 1000, 0, NCCL);
	call(ALLOC, 1110, 0x200, 10, 0, NCCL);
	coverage(ALLOC, SECOND); /* frees are seen */
	coverage(FREE, SECOND);	 /* it never freed so */
	answer(1200, 0, 1500);
	pass(1300);
	expect_samples(OF("libnccl", "1010") OF("(not seen)", "490"));
	call(FREE, 1310, 0x200, 0, 0, 0);
	coverage(FREE, SECOND); /* it was on since */
	answer(1400, 0, 1500);
	pass(1500);
	expect_samples(OF("libnccl", "1000") OF("(not seen)", "500"));
	coverage(FREE, 2 * SECOND);
	pass(1600);
	answer(1700, 0, 1500);
	pass(1800);
	expect_samples(OF("libnccl", "0") OF("(not seen)", "1500"));
}

static void of_several_gpus_and_processes(void **unused)
{
	(void)unused;
	call(ALLOC, 1100, 0x100, 1000, 0, NCCL);
	call(ALLOC, 1110, 0x100, 3, 0, NCCL)->thread = 1; /* its mappings cannot be read */
	answer(1200, 0, 1500);
	answer(1200, 1, 400);
	answer(1200, 2, 5);
	pass(1300);
	expect_samples(FAMILY
		       "{pid=\"7\",comm=\"python3\",owner=\"libnccl\"} 1000\n" FAMILY
		       "{pid=\"7\",comm=\"python3\",owner=\"(not seen)\"} 900\n" FAMILY
		       "{gpu=\"0\",uuid=\"GPU-a\",pid=\"8\",comm=\"python3\",owner=\"(other)\"} "
		       "3\n" FAMILY
		       "{gpu=\"0\",uuid=\"GPU-a\",pid=\"8\",comm=\"python3\",owner=\"(not "
		       "seen)\"} 2\n");
	process(8, 5);
	answer(2200, 0, 1500);
	answer(2200, 1, 400);
	pass(2300);
	for (uint64_t ms = 3200; ms <= 5200; ms += 1000) {
		answer(ms, 0, 1500); /* of one */
		pass(ms + 100);
		expect_samples(FAMILY "{pid=\"7\",comm=\"python3\",owner=\"libnccl\"} 1000\n" FAMILY
				      "{pid=\"7\",comm=\"python3\",owner=\"(not seen)\"} 900\n");
	}
	answer(6200, 0, 1500); /* it has left the other */
	pass(6300);
	expect_samples(OF("libnccl", "1000") OF("(not seen)", "500"));
	pass(70000); /* told too long ago */
	expect_samples("");
	process(7, 5);
	pass(140001);
	assert_int_equal(s.gpu_memory.processes.len, 0);
	assert_int_equal(s.gpu_memory.room.blocks, 0);
}

static const char *on_several(uint64_t owned, uint64_t not_seen)
{
	static char text[512];
	snprintf(text, sizeof(text),
		 FAMILY "{pid=\"7\",comm=\"python3\",owner=\"libnccl\"} %llu\n" FAMILY
			"{pid=\"7\",comm=\"python3\",owner=\"(not seen)\"} %llu\n",
		 (unsigned long long)owned, (unsigned long long)not_seen);
	return text;
}

/* NVML answers by itself for each GPU: what a process has is all that it said at one time. */
static void one_reading_of_four_gpus(void **unused)
{
	(void)unused;
	metric(3, 7, 2);
	metric(4, 7, 3);
	pass(1050);
	static const uint32_t of[] = {0, 1, 3, 4};
	call(ALLOC, 1100, 0x100, 4000, 0, NCCL);
	for (uint64_t ms = 1200; ms <= 3200; ms += 1000) {
		for (int i = 0; i < 4; i++)
			answer(ms, of[i], 1200);
		pass(ms + 100);
		expect_samples(on_several(4000, 800));
	}
	for (int i = 0; i < 4; i++)
		answer(4200, of[i], 900); /* too little, but twice */
	pass(4300);
	for (int i = 0; i < 4; i++) { /* a batch each */
		answer(5200, of[i], 900);
		pass(5300 + (uint64_t)i);
		expect_samples(on_several(4000, 800));
	}
	for (int i = 0; i < 4; i++)
		answer(6200, of[i], 1300);
	pass(6300);
	expect_samples(on_several(4000, 1200));
	for (uint64_t ms = 7200; ms <= 9200; ms += 1000)
		for (int i = 0; i < 4; i++)
			answer(ms, of[i], 900);
	pass(9300);
	expect_samples(on_several(0, 3600));
}

/* Where NVML is dear it is asked more seldom, and one answer may not come. */
static void seldom_answers(void **unused)
{
	(void)unused;
	call(ALLOC, 1100, 0x100, 1000, 0, NCCL);
	for (uint64_t ms = 10000; ms <= 60000; ms += 10000) {
		answer(ms, 0, 1200);
		if (ms != 40000)
			answer(ms, 1, 600);
		pass(ms + 100);
		expect_samples(on_several(1000, 800));
	}
}

/* A name of its own have sixteen; others are one. */
static void many_owners(void **unused)
{
	struct buf b_maps = {0};
	char line[128];
	(void)unused;
	for (int i = 0; i < 40; i++) {
		int n = snprintf(line, sizeof(line),
				 "%x-%x r-xp 00000000 08:01 %d /usr/lib/lib%02d.so.1\n",
				 0x100000 + i * 0x1000, 0x101000 + i * 0x1000, 20 + i, i);
		buf_add(&b_maps, line, (size_t)n);
	}
	put_of_process(7, "maps", (char *)b_maps.data, b_maps.len);
	buf_free(&b_maps);
	for (uint64_t i = 0; i < 40; i++)
		call(ALLOC, 1100 + i, 0x100 + i, 1, 0, 0x100000 + i * 0x1000);
	answer(1200, 0, 100);
	pass(1300);
	assert_int_equal(s.gpu_memory.processes.len, 1);
	const struct live_gpu_memory_process *p = &s.gpu_memory.processes.data[0];
	assert_int_equal(p->rows.len, GPU_MEMORY_OWNERS + 2);
	assert_string_equal(p->rows.data[15].owner, "lib15");
	assert_int_equal(p->rows.data[15].bytes, 1);
	assert_string_equal(p->rows.data[16].owner, "(other)");
	assert_int_equal(p->rows.data[16].bytes, 24);
	assert_int_equal(p->rows.data[17].bytes, 60);
}

static void put_maps(const char *text)
{
	put_of_process(7, "maps", text, strlen(text));
}

/* Each time from another place: of many the oldest goes. */
static void many_places(void **unused)
{
	struct buf b_maps = {0};
	(void)unused;
	for (int i = 0; i < 40; i++)
		buf_printf(&b_maps, "%x-%x r-xp %08x 08:01 20 /usr/lib/lib%s.so\n",
			   0x100000 + i * 0x1000, 0x101000 + i * 0x1000, i * 0x1000,
			   i < 39 ? "a" : "z");
	buf_byte(&b_maps, 0);
	put_maps((char *)b_maps.data);
	buf_free(&b_maps);
	for (uint64_t i = 0; i < 40; i++)
		call(ALLOC, 1100 + i * 1000, 0x100 + i, 1, 0, 0x100000 + i * 0x1000);
	answer(60000, 0, 100);
	pass(60100);
	expect_samples(OF("liba", "39") OF("libz", "1") OF("(not seen)", "60"));
}

/* They take no room from libraries. */
static void calls_from_nowhere(void **unused)
{
	(void)unused;
	for (uint64_t i = 0; i < 33; i++)
		call(ALLOC, 1100 + i, 0x100 + i, 1, 0, 0x900000 + i);
	call(ALLOC, 5000, 0x900, 7, 0, NCCL);
	answer(6000, 0, 100);
	pass(6100);
	expect_samples(OF("libnccl", "7") OF("(other)", "33") OF("(not seen)", "60"));
}

static void other_code_at_a_place(void **unused)
{
	(void)unused;
	call(ALLOC, 1100, 0x100, 1, 0, NCCL);
	pass(1200);
	put_maps("30000-32000 r-xp 00000000 08:01 20 /usr/lib/libnew.so\n");
	*vec_push(&b.maps) = (struct m_map){
		.pid = 7, .start = 0x30000, .end = 0x32000, .path = text("/usr/lib/libnew.so")};
	call(ALLOC, 1300, 0x200, 2, 0, NCCL);
	pass(1400);
	put_maps("31000-33000 r-xp 00000000 08:01 21 /usr/lib/libexec.so\n");
	process(7, 0); /* as it is told when it has become another program */
	call(ALLOC, 1500, 0x300, 4, 0, NCCL);
	answer(1600, 0, 10);
	pass(1700);
	expect_samples(OF("libnccl", "1") OF("libnew", "2") OF("libexec", "4")
			       OF("(not seen)", "3"));
}

/* Of 1,025 processes NVML tells one each. */
static void many_processes(void **unused)
{
	(void)unused;
	for (uint32_t i = 0; i < 1025; i++) {
		process(100 + i, 0);
		metric(10 + i, 100 + i, 0);
	}
	pass(1100);
	for (uint32_t i = 0; i < 1025; i++)
		answer(1200, 10 + i, 5);
	pass(1300);
	assert_int_equal(s.gpu_memory.processes.len, 1024);
	assert_int_equal(live_series_left_out(&s), 1);
}

/* What is beyond the room is nobody's, and nothing grows. */
static void many_blocks(void **unused)
{
	(void)unused;
	for (uint64_t i = 0; i < 70000; i++)
		call(ALLOC, 1100, 0x1000 + i, 1, 0, NCCL);
	answer(1200, 0, 100000);
	pass(1300);
	assert_int_equal(s.gpu_memory.room.blocks, 1 << 16);
	assert_int_equal(live_series_left_out(&s), 70000 - (1 << 16));
	expect_samples(OF("libnccl", "65536") OF("(not seen)", "34464"));
	for (uint64_t i = 0; i < 70000; i++)
		call(FREE, 1400, 0x1000 + i, 0, 0, 0);
	answer(1500, 0, 100000);
	pass(1600);
	assert_int_equal(s.gpu_memory.room.blocks, 0);
	assert_int_equal(s.gpu_memory.items.len, 0);
	expect_samples(OF("libnccl", "0") OF("(not seen)", "100000"));
}

static void names_of_owners(void **unused)
{
	static const char *const of[][2] = {
		{"/opt/torch/lib/libc10_cuda.so", "libc10_cuda"},
		{"/usr/lib/libnccl.so.2.28.3", "libnccl"},
		{"/site/libcublas-7d3a1b2c.so.12", "libcublas"},
		{"/site/libfoo-notahash.so", "libfoo-notahash"},
		{"/site/_C.cpython-311-x86_64-linux-gnu.so", "_C"},
		{"/usr/bin/python3.11", "python3"},
		{"server", "server"},
		{"/opt/a b\n.so", "a?b?"},
		{"/opt/0123456789012345678901234567890123456789012345678901234567890.so",
		 "01234567890123456789012345678901234567890123456"},
		{"", "(other)"},
		{"[uprobes]", "(other)"},
		{"/opt/.so", "(other)"},
	};
	char name[GPU_MEMORY_NAME_BYTES];
	(void)unused;
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		live_gpu_memory_owner(name, of[i][0]);
		assert_string_equal(name, of[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(owners_sum_up, begin, end),
		cmocka_unit_test_setup_teardown(in_the_order_of_time, begin, end),
		cmocka_unit_test_setup_teardown(mapped_memory, begin, end),
		cmocka_unit_test_setup_teardown(mapped_beside_unseen, begin, end),
		cmocka_unit_test_setup_teardown(many_mappings, begin, end),
		cmocka_unit_test_setup_teardown(more_than_nvml_says, begin, end),
		cmocka_unit_test_setup_teardown(frees_that_are_left_out, begin, end),
		cmocka_unit_test_setup_teardown(of_several_gpus_and_processes, begin, end),
		cmocka_unit_test_setup_teardown(one_reading_of_four_gpus, begin, end),
		cmocka_unit_test_setup_teardown(seldom_answers, begin, end),
		cmocka_unit_test_setup_teardown(many_owners, begin, end),
		cmocka_unit_test_setup_teardown(many_places, begin, end),
		cmocka_unit_test_setup_teardown(calls_from_nowhere, begin, end),
		cmocka_unit_test_setup_teardown(other_code_at_a_place, begin, end),
		cmocka_unit_test_setup_teardown(many_processes, begin, end),
		cmocka_unit_test_setup_teardown(many_blocks, begin, end),
		cmocka_unit_test(names_of_owners),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
