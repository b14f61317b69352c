/* cause_words.h - an incident's cause in words: what people read of owners, causes and evidence. */
#pragma once

#include "base/buffer.h"
#include "incident/causes.h"

/* Adds the sentences of what was found, and what speaks against the runner-up. */
void cause_words(struct cause_found *f, const struct evidence *e);
/* Of one that was withdrawn (cause_withdraw): why. */
void cause_words_withdrawn(struct cause_found *f, double found_ns, double lost_ns);

/* "CPU contention by stress (4242)". */
void cause_headline(struct buf *b, const struct rec_tables *t, const struct cause_found *f);

/* "could run, but stress (4242) had the CPU". */
void blame_owner_words(struct buf *b, const struct rec_tables *t, const struct blame_owner *o);
/* "train.py:20 in forward"; appends nothing where there is no frame. */
void blame_frame_words(struct buf *b, const struct rec_tables *t, uint32_t frame);
/* Its own, or the one that it is in, "/job"; "": none is known. */
const char *culprit_cgroup(const struct rec_tables *t, const struct culprit *c);
/* "process", "cgroup": what a culprit is, as JSON and recordings have it. */
const char *culprit_kind_id(enum culprit_kind kind);
/* The name of its device, interface or interrupt, which it has. */
void culprit_device_words(struct buf *b, const struct rec_tables *t, const struct culprit *c);
/* Of an interface's label, "eth0 of pid 42": how long its name is. */
size_t cause_interface_length(const char *label);
