/* sandbox.c - by libcap and libseccomp. */
#include "base/sandbox.h"

#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

#define LEAVE_TRIES   200
#define LEAVE_STEP_NS 1000000L

static bool keeps(const struct sandbox *s, cap_value_t c)
{
	for (size_t i = 0; i < s->capabilities_len; i++)
		if (s->capabilities[i].number == c)
			return true;
	return false;
}

/* The links of /proc/self/task are itself, its parent, and one for each thread. One that has done
 * its work may be on its way out. */
static bool has_threads(void)
{
	struct stat st = {0};
	for (int i = 0; i < LEAVE_TRIES; i++) {
		if (stat("/proc/self/task", &st) || st.st_nlink <= 3)
			return false;
		nanosleep(&(struct timespec){.tv_nsec = LEAVE_STEP_NS}, NULL);
	}
	return true;
}

/* ---- capabilities ---- */

static int keep_flag(cap_t next, cap_t now, cap_value_t c, cap_flag_t flag)
{
	cap_flag_value_t value;
	if (cap_get_flag(now, c, CAP_PERMITTED, &value))
		return -errno;
	return value == CAP_SET && cap_set_flag(next, flag, 1, &c, CAP_SET) ? -errno : 0;
}

/* Of what is permitted, what is kept; nothing is inheritable or ambient. */
static int keep_capabilities(const struct sandbox *s)
{
	cap_t now = cap_get_proc(), next = cap_init();
	int rc = now && next ? 0 : -errno;
	for (cap_value_t c = 0; c < cap_max_bits() && !rc; c++) {
		if (!keeps(s, c))
			continue;
		rc = keep_flag(next, now, c, CAP_PERMITTED);
		if (!rc)
			rc = keep_flag(next, now, c, CAP_EFFECTIVE);
	}
	if (!rc && cap_set_proc(next))
		rc = -errno;
	cap_free(now);
	cap_free(next);
	return rc;
}

int sandbox_lower(int capability, bool lowered)
{
	cap_t caps = cap_get_proc();
	cap_flag_value_t permitted = CAP_CLEAR;
	int rc = caps ? 0 : -errno;
	if (!rc && cap_get_flag(caps, capability, CAP_PERMITTED, &permitted))
		rc = -errno;
	if (!rc && permitted == CAP_CLEAR)
		rc = -EPERM;
	if (!rc &&
	    (cap_set_flag(caps, CAP_EFFECTIVE, 1, &capability, lowered ? CAP_CLEAR : CAP_SET) ||
	     cap_set_proc(caps)))
		rc = -errno;
	cap_free(caps);
	return rc;
}

/* Who has no CAP_SETPCAP keeps its bounding set: without new privileges it is of no use. */
static int drop_bounding_set(const struct sandbox *s)
{
	for (cap_value_t c = 0; c < cap_max_bits(); c++)
		if (!keeps(s, c) && cap_drop_bound(c) && errno != EPERM)
			return -errno;
	return cap_reset_ambient() ? -errno : 0;
}

/* ---- system calls ---- */

static uint32_t refusal(const struct sandbox *s)
{
	return s->kill ? SCMP_ACT_KILL_PROCESS : SCMP_ACT_ERRNO(EPERM);
}

static int add_call(scmp_filter_ctx filter, uint32_t action, const struct sandbox_call *c)
{
	struct scmp_arg_cmp when = {
		.arg = c->arg, .op = SCMP_CMP_MASKED_EQ, .datum_a = c->mask, .datum_b = c->value};
	return seccomp_rule_add_array(filter, action, c->number, c->mask ? 1 : 0, &when);
}

static int filter_calls(const struct sandbox *s)
{
	if (s->rule == SANDBOX_ALL_CALLS)
		return 0;
	bool only = s->rule == SANDBOX_ONLY;
	scmp_filter_ctx filter = seccomp_init(only ? refusal(s) : SCMP_ACT_ALLOW);
	if (!filter)
		return -ENOMEM;
	/* speculation stays as it is, which kernels before 5.16 would slow down */
	seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
	int rc = 0;
	for (size_t i = 0; i < s->calls_len && !rc; i++)
		rc = add_call(filter, only ? SCMP_ACT_ALLOW : refusal(s), &s->calls[i]);
	if (!rc)
		rc = seccomp_load(filter);
	seccomp_release(filter);
	return rc;
}

/* ---- both ---- */

int sandbox_enter(const struct sandbox *s, struct err *e)
{
	const char *what = "capabilities";
	if (has_threads())
		return err_set(e, EBUSY, "cannot give up privileges: there are threads");
	int rc = drop_bounding_set(s);
	if (!rc)
		rc = keep_capabilities(s);
	if (!rc && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		rc = -errno;
	if (!rc && s->secret && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		rc = -errno;
	if (!rc) {
		what = "system calls";
		rc = filter_calls(s);
	}
	return rc ? err_set(e, -rc, "cannot give up %s: %s", what, strerror(-rc)) : 0;
}

const char *sandbox_capability_name(char ret[SANDBOX_NAME_BYTES], int capability)
{
	char *name = cap_to_name(capability);
	bool known = name && !strncmp(name, "cap_", 4);
	snprintf(ret, SANDBOX_NAME_BYTES, "%s", known ? name + 4 : "?");
	cap_free(name);
	return ret;
}
