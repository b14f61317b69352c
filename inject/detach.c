/* detach.c - cuptiFinalize, as its comment in cupti_activity.h wants it: at the exit of a call of
 * the driver, for which CUPTI has to be subscribed to. Only one can subscribe. */
#include "detach.h"

#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "gate.h"

#define CALL_MS	    1000 /* for a call of the driver to return */
#define FINALIZE_MS 5000

enum { CUPTI_MULTIPLE_SUBSCRIBERS = 39 }; /* CUptiResult */

enum state { IDLE, WANTED, TAKEN, DONE };

static struct {
	const struct cupti *cupti;
	void *subscriber;
	int state; /* enum state; atomic */
	int result;
	char text[128];
} detach;

static bool change(int from, int to)
{
	return __atomic_compare_exchange_n(&detach.state, &from, to, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

static void finalize(void)
{
	if (detach.subscriber)
		detach.cupti->Unsubscribe(detach.subscriber);
	detach.result = detach.cupti->Finalize();
	__atomic_store_n(&detach.state, DONE, __ATOMIC_SEQ_CST);
}

__attribute__((used, visibility("hidden"))) void
detach_on_call(void *user, uint32_t domain, uint32_t function, const struct cupti_callback *data);
extern const char detach_on_call_gate[] __attribute__((visibility("hidden")));
GATE(detach_on_call)

void detach_on_call(void *user, uint32_t domain, uint32_t function,
		    const struct cupti_callback *data)
{
	gate_enter();
	(void)user;
	(void)function;
	if (domain == CUPTI_DOMAIN_DRIVER && data->site == CUPTI_SITE_EXIT && change(WANTED, TAKEN))
		finalize();
}

static bool wait_for(int state, unsigned ms)
{
	for (; ms; ms--) {
		if (__atomic_load_n(&detach.state, __ATOMIC_SEQ_CST) == state)
			return true;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return false;
}

static int subscribe(const struct cupti *c)
{
	return c->Subscribe(&detach.subscriber, (cupti_call_fn)(uintptr_t)detach_on_call_gate,
			    NULL);
}

const char *detach_other_user(const struct cupti *c)
{
	if (!c->Subscribe || !c->Unsubscribe)
		return NULL;
	int rc = subscribe(c);
	if (!rc)
		c->Unsubscribe(detach.subscriber);
	return rc == CUPTI_MULTIPLE_SUBSCRIBERS
		       ? "not recorded: another tool has subscribed to CUPTI in this process"
		       : NULL;
}

static const char *say(const struct cupti *c, const char *doing, int rc)
{
	const char *why = NULL;
	if (c->GetResultString)
		c->GetResultString(rc, &why);
	snprintf(detach.text, sizeof(detach.text), "CUPTI stays in the process: %s: %s (%d)", doing,
		 why ? why : "error", rc);
	return detach.text;
}

const char *detach_cupti(const struct cupti *c)
{
	if (!c->Subscribe || !c->Unsubscribe || !c->EnableDomain || !c->Finalize)
		return "CUPTI stays in the process: this version cannot be ended";
	detach.cupti = c;
	detach.result = 0;
	int rc = subscribe(c);
	if (rc == CUPTI_MULTIPLE_SUBSCRIBERS)
		return say(c, "cuptiSubscribe", rc);
	if (rc) /* it had not begun to work */
		detach.subscriber = NULL;
	__atomic_store_n(&detach.state, WANTED, __ATOMIC_SEQ_CST);
	if (!rc)
		rc = c->EnableDomain(1, detach.subscriber, CUPTI_DOMAIN_DRIVER);
	if ((rc || !wait_for(DONE, CALL_MS)) && change(WANTED, TAKEN)) {
		c->ActivityFlushAll(CUPTI_FLUSH_FORCED);
		finalize();
	}
	if (!wait_for(DONE, FINALIZE_MS))
		return "CUPTI stays in the process: cuptiFinalize did not return in 5 s";
	return detach.result ? say(c, "cuptiFinalize", detach.result) : NULL;
}
