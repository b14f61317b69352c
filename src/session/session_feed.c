/* session_feed.c - the queue between the thread that records and the one that detects. */
#include "session/session_feed.h"

#include <pthread.h>
#include <stdatomic.h>

#define HAND_ON_NS    20000000ULL /* each batch wakes the other thread */
#define HAND_ON_CALLS 8192
#define KEPT	      8 /* empty batches, to be used again */
#define KEPT_BYTES    (4u << 20)
#define SMALL_BYTES   (64u << 10)

struct feed {
	size_t most_bytes;
	struct pipeline *pipeline;

	/* the recording thread's */
	struct feed_batch *filling;
	size_t filled_bytes; /* of events */
	uint32_t strings;
	uint64_t handed_ns;

	atomic_size_t queued_bytes;
	atomic_uint_fast64_t overruns;

	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct feed_batch *first, **last; /* under lock, as all below */
	struct feed_batch *spare;
	unsigned spares;
	bool ended;
};

static size_t event_bytes(const struct feed_batch *b)
{
	return b->calls.len * sizeof(*b->calls.data) +
	       b->gpu_spans.len * sizeof(*b->gpu_spans.data) +
	       b->counters.len * sizeof(*b->counters.data) +
	       b->samples.len * sizeof(*b->samples.data);
}

static void batch_free(struct feed_batch *b)
{
	if (!b)
		return;
	vec_free(&b->string_ends);
	buf_free(&b->texts);
	vec_free(&b->probes);
	vec_free(&b->threads);
	vec_free(&b->codes);
	vec_free(&b->processes);
	vec_free(&b->comms);
	vec_free(&b->gpus);
	vec_free(&b->losses);
	vec_free(&b->calls);
	vec_free(&b->gpu_spans);
	vec_free(&b->counters);
	vec_free(&b->samples);
	vec_free(&b->threads_gone);
	vec_free(&b->names);
	buf_free(&b->name_texts);
	vec_free(&b->names_gone);
	free(b);
}

static void batch_empty(struct feed_batch *b)
{
	b->next = NULL;
	b->upto_ns = b->overruns = 0;
	b->first_string = 0;
	b->string_ends.len = b->texts.len = b->probes.len = b->threads.len = b->codes.len = 0;
	b->processes.len = b->comms.len = b->gpus.len = b->losses.len = b->calls.len = 0;
	b->names.len = b->name_texts.len = b->names_gone.len = 0;
	b->gpu_spans.len = b->counters.len = b->samples.len = b->threads_gone.len = 0;
}

struct feed *feed_new(size_t most_bytes)
{
	struct feed *f = xcalloc(1, sizeof(*f));
	f->most_bytes = most_bytes;
	f->filling = xcalloc(1, sizeof(*f->filling));
	f->last = &f->first;
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->wake, NULL);
	return f;
}

static void list_free(struct feed_batch *b)
{
	while (b) {
		struct feed_batch *next = b->next;
		batch_free(b);
		b = next;
	}
}

void feed_free(struct feed *f)
{
	if (!f)
		return;
	list_free(f->first);
	list_free(f->spare);
	batch_free(f->filling);
	pthread_mutex_destroy(&f->lock);
	pthread_cond_destroy(&f->wake);
	free(f);
}

/* ---- the recording thread's ---- */

/* Whether n events of a size have a place; if not they are counted. */
static bool has_room(struct feed *f, size_t n, size_t size)
{
	size_t bytes = n * size;
	if (atomic_load_explicit(&f->queued_bytes, memory_order_relaxed) + f->filled_bytes + bytes >
	    f->most_bytes) {
		atomic_fetch_add_explicit(&f->overruns, n, memory_order_relaxed);
		f->filling->overruns += n;
		return false;
	}
	f->filled_bytes += bytes;
	return true;
}

static void on_probe(void *ctx, uint32_t number, const struct m_probe *row)
{
	struct feed *f = ctx;
	(void)number;
	*vec_push(&f->filling->probes) = *row;
}

static void on_thread(void *ctx, uint32_t index, const struct m_thread *row)
{
	struct feed *f = ctx;
	*vec_push(&f->filling->threads) = (struct feed_thread){index, *row};
}

static void on_thread_gone(void *ctx, uint32_t index)
{
	struct feed *f = ctx;
	*vec_push(&f->filling->threads_gone) = index;
}

static void on_code(void *ctx, uint32_t number, const struct m_code *row)
{
	struct feed *f = ctx;
	(void)number;
	*vec_push(&f->filling->codes) = *row;
}

static void on_name(void *ctx, uint32_t number, const char *text)
{
	struct feed *f = ctx;
	struct feed_batch *b = f->filling;
	*vec_push(&b->names) = (struct feed_name){number, (uint32_t)b->name_texts.len};
	buf_add(&b->name_texts, text, strlen(text) + 1);
}

static void on_name_gone(void *ctx, uint32_t number)
{
	struct feed *f = ctx;
	*vec_push(&f->filling->names_gone) = number;
}

static void on_process(void *ctx, const struct m_process *row)
{
	struct feed *f = ctx;
	*vec_push(&f->filling->processes) = *row;
}

static void on_comm(void *ctx, const struct m_comm *row)
{
	struct feed *f = ctx;
	*vec_push(&f->filling->comms) = *row;
}

static void on_gpu(void *ctx, const struct m_gpu *row)
{
	struct feed *f = ctx;
	*vec_push(&f->filling->gpus) = *row;
}

static void on_loss(void *ctx, const struct m_loss *row)
{
	struct feed *f = ctx;
	*vec_push(&f->filling->losses) = *row;
}

static void on_calls(void *ctx, const struct m_call *rows, size_t n)
{
	struct feed *f = ctx;
	struct feed_batch *b = f->filling;
	if (!has_room(f, n, sizeof(*rows)))
		return;
	vec_reserve(&b->calls, n);
	memcpy(b->calls.data + b->calls.len, rows, n * sizeof(*rows));
	b->calls.len += n;
}

static void on_gpu_span(void *ctx, const struct m_gpu_span *row)
{
	struct feed *f = ctx;
	if (has_room(f, 1, sizeof(*row)))
		*vec_push(&f->filling->gpu_spans) = *row;
}

static void on_counter(void *ctx, const struct m_counter *row)
{
	struct feed *f = ctx;
	if (has_room(f, 1, sizeof(*row)))
		*vec_push(&f->filling->counters) = *row;
}

static void on_sample(void *ctx, const struct m_sample *row)
{
	struct feed *f = ctx;
	if (has_room(f, 1, sizeof(*row)))
		*vec_push(&f->filling->samples) = *row;
}

void feed_listen(struct feed *f, struct pipeline *p)
{
	f->pipeline = p;
	pipeline_set_tap(p, &(struct pipeline_tap){
				    .ctx = f,
				    .probe = on_probe,
				    .thread = on_thread,
				    .thread_gone = on_thread_gone,
				    .code = on_code,
				    .name = on_name,
				    .name_gone = on_name_gone,
				    .process = on_process,
				    .comm = on_comm,
				    .gpu = on_gpu,
				    .loss = on_loss,
				    .calls = on_calls,
				    .gpu_span = on_gpu_span,
				    .counter = on_counter,
				    .sample = on_sample,
			    });
}

/* Strings that rows of this batch may refer to. */
static void add_strings(struct feed *f)
{
	struct feed_batch *b = f->filling;
	uint32_t now = pipeline_strings(f->pipeline);
	b->first_string = f->strings;
	for (; f->strings < now; f->strings++) {
		const char *text = pipeline_string_text(f->pipeline, f->strings);
		buf_add(&b->texts, text, strlen(text) + 1);
		*vec_push(&b->string_ends) = (uint32_t)b->texts.len - 1;
	}
}

static struct feed_batch *spare_batch(struct feed *f)
{
	struct feed_batch *b = f->spare;
	if (!b)
		return xcalloc(1, sizeof(*b));
	f->spare = b->next;
	f->spares--;
	b->next = NULL;
	return b;
}

static void hand_on(struct feed *f, bool last)
{
	add_strings(f);
	atomic_fetch_add_explicit(&f->queued_bytes, f->filled_bytes, memory_order_relaxed);
	f->filled_bytes = 0;
	pthread_mutex_lock(&f->lock);
	*f->last = f->filling;
	f->last = &f->filling->next;
	f->filling = spare_batch(f);
	f->ended |= last;
	pthread_cond_signal(&f->wake);
	pthread_mutex_unlock(&f->lock);
}

void feed_pass(struct feed *f, uint64_t begin_ns)
{
	if (begin_ns - f->handed_ns < HAND_ON_NS && f->filling->calls.len < HAND_ON_CALLS)
		return;
	f->handed_ns = begin_ns;
	f->filling->upto_ns = begin_ns;
	hand_on(f, false);
}

void feed_end(struct feed *f)
{
	pipeline_set_tap(f->pipeline, &(struct pipeline_tap){0}); /* it may outlive the feed */
	hand_on(f, true);
}

/* ---- the other thread's ---- */

struct feed_batch *feed_take(struct feed *f)
{
	pthread_mutex_lock(&f->lock);
	while (!f->first && !f->ended)
		pthread_cond_wait(&f->wake, &f->lock);
	struct feed_batch *b = f->first;
	if (b) {
		f->first = b->next;
		if (!f->first)
			f->last = &f->first;
		b->next = NULL;
	}
	pthread_mutex_unlock(&f->lock);
	return b;
}

/* Not those that are larger than is usual: they come of a pause, and would stay. */
static bool is_worth_keeping(const struct feed_batch *b)
{
	size_t room = b->calls.cap * sizeof(*b->calls.data);
	return room <= SMALL_BYTES || (room <= KEPT_BYTES && b->calls.len >= b->calls.cap / 4);
}

void feed_give_back(struct feed *f, struct feed_batch *b)
{
	atomic_fetch_sub_explicit(&f->queued_bytes, event_bytes(b), memory_order_relaxed);
	bool keep = is_worth_keeping(b);
	batch_empty(b);
	pthread_mutex_lock(&f->lock);
	if (keep && f->spares < KEPT) {
		b->next = f->spare;
		f->spare = b;
		f->spares++;
		b = NULL;
	}
	pthread_mutex_unlock(&f->lock);
	batch_free(b);
}

uint64_t feed_overruns(const struct feed *f)
{
	return atomic_load_explicit(&f->overruns, memory_order_relaxed);
}
