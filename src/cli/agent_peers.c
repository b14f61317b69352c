/* agent_peers.c - a push client for each peer, and the ids of the freezes that were lately. */
#include "cli/agent_peers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "cli/agent.h"
#include "cli/agent_frozen.h"
#include "serve/peer_note.h"

#define IDS_MOST    64
#define PARENTS	    8 /* that are looked at for communicators */
#define TIMEOUT_NS  2000000000ULL
#define INTERVAL_NS 3600000000000ULL /* nothing is due by the clock: push_client_wake */

static const char note_path[] = "/freeze";

struct peer {
	struct agent_peers *of;
	const char *url;
	struct push_client *client;
	/* of the lock: */
	uint64_t froze, put_ns, taken_realtime_ns;
	double answer_s;
};

struct known_freeze {
	uint64_t id;
	enum peer_answer answer;
};

struct agent_peers {
	struct agent *agent;
	struct peer list[AGENT_PEERS];
	size_t len;
	pthread_mutex_t lock;		     /* of what follows, and of what peers' say */
	struct known_freeze known[IDS_MOST]; /* a ring */
	size_t nknown;
	uint64_t notes[PEER_ANSWERS];
};

/* ---- freezes that are known ---- */

static void remember(struct agent_peers *p, uint64_t id, enum peer_answer answer)
{
	pthread_mutex_lock(&p->lock);
	p->known[p->nknown++ % IDS_MOST] = (struct known_freeze){id, answer};
	pthread_mutex_unlock(&p->lock);
}

static bool is_known(struct agent_peers *p, uint64_t id)
{
	bool ret = false;
	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < IDS_MOST && i < p->nknown && !ret; i++)
		ret = p->known[i].id == id;
	pthread_mutex_unlock(&p->lock);
	return ret;
}

/* 0: there is none. */
static uint64_t new_id(void)
{
	uint64_t ret;
	return getrandom(&ret, sizeof(ret), 0) == sizeof(ret) ? ret : 0;
}

/* ---- telling ---- */

static uint32_t parent_of(struct agent *a, uint32_t pid)
{
	pthread_mutex_lock(&a->lock);
	const struct live_process *process = live_series_process(&a->series, pid);
	uint32_t ret = process ? process->parent : 0;
	pthread_mutex_unlock(&a->lock);
	return ret;
}

/* 0: it is no job, as a shell or a container's first process is none. */
static uint32_t calling_parent_of(struct agent *a, uint32_t pid)
{
	uint32_t above = parent_of(a, pid);
	pthread_mutex_lock(&a->lock);
	const struct live_process *process = live_series_process(&a->series, above);
	uint32_t ret = process && process->called ? above : 0;
	pthread_mutex_unlock(&a->lock);
	return ret;
}

/* Those of the process, or of the nearest above it that has any: a loader's are its trainer's. */
static void find_comms(struct agent *a, uint32_t pid, struct peer_note *ret)
{
	ret->ncomms = live_comms_of(a->comms, pid, ret->comms, PEER_NOTE_COMMS);
	for (unsigned i = 0; i < PARENTS && pid && !ret->ncomms; i++) {
		pid = parent_of(a, pid);
		if (pid)
			ret->ncomms = live_comms_of(a->comms, pid, ret->comms, PEER_NOTE_COMMS);
	}
}

static void tell(struct peer *peer, const struct buf *text, uint64_t now_ns)
{
	struct http_post post = {.path = note_path,
				 .type = "application/json",
				 .packed = true, /* it is small, and who takes it unpacks nothing */
				 .until_ns = now_ns + PEER_LATE_NS};
	buf_add(&post.body, text->data, text->len);
	pthread_mutex_lock(&peer->of->lock);
	peer->put_ns = now_ns;
	pthread_mutex_unlock(&peer->of->lock);
	push_client_put(peer->client, &post);
	push_client_wake(peer->client);
}

static void tell_all(struct agent_peers *p, struct peer_note *note, uint64_t time_ns)
{
	struct buf text = {0};
	uint64_t now_ns = monotonic_ns();
	note->age_ns = time_ns && time_ns < now_ns ? now_ns - time_ns : 0;
	note->realtime_ns = realtime_ns() - note->age_ns;
	peer_note_write(&text, note);
	for (size_t i = 0; i < p->len; i++)
		tell(&p->list[i], &text, now_ns);
	buf_free(&text);
}

/* Ranks of a job have their largest communicator in common; a process without any is of the
 * uppermost of those above it that are jobs as well. */
static void print_job(char ret[static FLIGHT_OF_BYTES], struct agent *a, uint32_t pid,
		      const struct peer_note *note)
{
	uint32_t above = pid;
	if (note->ncomms) {
		snprintf(ret, FLIGHT_OF_BYTES, "job of communicator %016" PRIx64, note->comms[0]);
		return;
	}
	for (unsigned i = 0; i < PARENTS && above; i++) {
		above = calling_parent_of(a, above);
		pid = above ? above : pid;
	}
	snprintf(ret, FLIGHT_OF_BYTES, "job of pid %" PRIu32, pid);
}

struct flight_verdict agent_peers_freeze(struct agent_peers *p, const struct agent_freeze *z)
{
	struct peer_note *note = xcalloc(1, sizeof(*note));
	char job[FLIGHT_OF_BYTES];
	struct flight_verdict ret;
	if (p->len || z->pid)
		find_comms(p->agent, z->pid, note);
	if (z->pid)
		print_job(job, p->agent, z->pid, note);
	note->id = p->len && note->ncomms ? new_id() : 0;
	snprintf(note->host, sizeof(note->host), "%s", p->agent->host[0] ? p->agent->host : "?");
	snprintf(note->why, sizeof(note->why), "%s", z->why);
	flight_trigger(p->agent->flight,
		       &(struct flight_cause){.time_ns = z->time_ns,
					      .why = z->why,
					      .id = note->id,
					      .of = z->pid ? job : z->of,
					      .is_again = z->is_again},
		       &ret);
	if (ret.taken == FLIGHT_OWN && note->id && !z->is_again) {
		remember(p, note->id, PEER_FREEZES);
		tell_all(p, note, z->time_ns);
	}
	free(note);
	if (!z->is_again && !z->is_answered)
		agent_frozen_taken(p->agent, z->why, &ret);
	return ret;
}

static void on_taken(void *ctx, const char *path, const uint8_t *answer, size_t n)
{
	struct peer *peer = ctx;
	bool froze = peer_answer_freezes(answer, n);
	(void)path;
	pthread_mutex_lock(&peer->of->lock);
	peer->froze += froze;
	peer->taken_realtime_ns = realtime_ns();
	peer->answer_s = (double)(monotonic_ns() - peer->put_ns) * 1e-9;
	pthread_mutex_unlock(&peer->of->lock);
}

static void on_say(void *ctx, const char *sentence)
{
	agent_say(((struct peer *)ctx)->of->agent, sentence);
}

/* ---- being told ---- */

static enum peer_answer take(struct agent_peers *p, const struct peer_note *note)
{
	static const enum peer_answer answers[] = {[FLIGHT_OWN] = PEER_FREEZES,
						   [FLIGHT_JOINS] = PEER_JOINS,
						   [FLIGHT_LATE] = PEER_LATE,
						   [FLIGHT_HELD_OFF] = PEER_HELD_OFF};
	struct flight_verdict v;
	char of[FLIGHT_OF_BYTES];
	if (is_known(p, note->id))
		return PEER_KNOWN;
	if (!live_comms_have(p->agent->comms, note->comms, note->ncomms))
		return PEER_STRANGER;
	char *why = xasprintf("%s froze: %s", note->host, note->why);
	snprintf(of, sizeof(of), "job of communicator %016" PRIx64, note->comms[0]);
	enum peer_answer ret = answers[flight_trigger(
		p->agent->flight,
		&(struct flight_cause){
			.time_ns = peer_note_moment(note, monotonic_ns(), realtime_ns()),
			.why = why,
			.id = note->id,
			.is_known = true,
			.of = of},
		&v)];
	agent_frozen_taken(p->agent, why, &v);
	free(why);
	remember(p, note->id, ret);
	return ret;
}

static void count(struct agent_peers *p, enum peer_answer answer)
{
	pthread_mutex_lock(&p->lock);
	p->notes[answer]++;
	pthread_mutex_unlock(&p->lock);
}

void agent_peers_note(struct agent_peers *p, const struct http_question *q, struct http_answer *ret)
{
	static const char *const sentences[PEER_ANSWERS] = {
		[PEER_FREEZES] = "will be written",
		[PEER_JOINS] = "belongs to a file that will be written",
		[PEER_LATE] = "a file that was written has it",
		[PEER_HELD_OFF] = "a file of a moment that is near was written",
		[PEER_KNOWN] = "this freeze is known",
		[PEER_STRANGER] = "no process here has one of these communicators"};
	struct peer_note *note = xcalloc(1, sizeof(*note));
	struct err e = {""};
	enum peer_answer answer = PEER_BAD;
	if (peer_note_read(note, q->body, q->body_len, &e)) {
		ret->status = 400;
		buf_printf(&ret->body, "%s\n", e.msg);
	} else {
		answer = take(p, note);
		bool freezes = answer == PEER_FREEZES || answer == PEER_JOINS;
		ret->status = freezes ? 202 : 200;
		ret->type = "application/json";
		peer_answer_write(&ret->body, note->id, freezes, sentences[answer]);
	}
	count(p, answer);
	free(note);
}

/* ---- figures ---- */

void agent_peers_stats(struct agent_peers *p, struct agent_peers_view *ret)
{
	ret->len = p->len;
	for (size_t i = 0; i < p->len; i++) {
		struct agent_pushed pushed;
		push_client_stats(p->list[i].client, &pushed);
		ret->list[i] = (struct agent_peer){.url = p->list[i].url,
						   .told = pushed.sent,
						   .failures = pushed.failures,
						   .refused = pushed.refused,
						   .dropped = pushed.dropped,
						   .waiting = pushed.waiting};
	}
	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < p->len; i++) {
		ret->list[i].froze = p->list[i].froze;
		ret->list[i].taken_realtime_ns = p->list[i].taken_realtime_ns;
		ret->list[i].answer_s = p->list[i].answer_s;
	}
	memcpy(ret->notes, p->notes, sizeof(ret->notes));
	pthread_mutex_unlock(&p->lock);
}

/* ---- its life ---- */

static int open_peer(struct agent_peers *p, const struct peers_wanted *w, size_t i, struct err *e)
{
	struct peer *peer = &p->list[i];
	const struct push_wanted to = {.url = w->urls[i],
				       .ca_file = w->ca_file,
				       .token_file = w->token_file,
				       .interval_ns = INTERVAL_NS,
				       .timeout_ns = TIMEOUT_NS};
	const struct push_client_options o = {.to = "peer",
					      .option = "peer",
					      .ctx = peer,
					      .taken = on_taken,
					      .say = on_say,
					      .rare = true};
	*peer = (struct peer){.of = p, .url = w->urls[i], .answer_s = NAN};
	return push_client_open(&peer->client, &to, &o, e);
}

int agent_peers_open(struct agent_peers **ret, const struct peers_wanted *w, struct agent *a,
		     struct err *e)
{
	struct agent_peers *p = xcalloc(1, sizeof(*p));
	int rc = 0;
	pthread_mutex_init(&p->lock, NULL);
	p->agent = a;
	for (; !rc && p->len < w->len; p->len += !rc)
		rc = open_peer(p, w, p->len, e);
	if (rc)
		agent_peers_close(p);
	else
		*ret = p;
	return rc;
}

int agent_peers_start(struct agent_peers *p, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < p->len && !rc; i++)
		rc = push_client_start(p->list[i].client, e);
	return rc;
}

void agent_peers_close(struct agent_peers *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->len; i++)
		push_client_close(p->list[i].client);
	pthread_mutex_destroy(&p->lock);
	free(p);
}
