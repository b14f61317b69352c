/* http_aside.h - answers that take a while, made on a thread beside the server's, one after the
 * other: no other answer waits for them. The thread begins with the first question. How long an
 * answer takes is for who makes it to bound. */
#pragma once

#include <event2/event.h>
#include <event2/http.h>

#include "serve/http_server.h"

#define ASIDE_MOST    16	    /* questions that wait; more are told to come again later */
#define ASIDE_WAIT_NS 5000000000ULL /* and those that waited so long */

struct http_aside;

/* done: on the thread of base, which sends the answer; that is the aside's after that, and r what
 * evhttp makes of it: who asked may be gone. NULL: it cannot be made. */
struct http_aside *http_aside_new(struct event_base *base,
				  void (*done)(struct evhttp_request *r,
					       const struct http_answer *a));
/* On the thread of base. 0, or the status of an answer that says no. ctx is the route's. */
int http_aside_ask(struct http_aside *a, const struct http_route *route, void *ctx,
		   const struct http_question *q, struct evhttp_request *r);
/* When the thread of base has ended, before evhttp_free. NULL: nothing. */
void http_aside_free(struct http_aside *a);
